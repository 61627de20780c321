"""Pages of a small museum and of its press office: something to publish and schedule."""
