"""RabbitMQ brokers as sites have them, made by arguments of the queues alone.

`x-consumer-timeout` needs RabbitMQ 3.12; an older one goes by its own `consumer_timeout`.
"""

from typing import Any

from dramatiq.brokers.rabbitmq import RabbitmqBroker

CONSUMER_TIMEOUT_MS = 60_000
SUBMISSION_LIMIT = 2


class ClassicBroker(RabbitmqBroker):
    def _build_queue_arguments(self, queue_name: str) -> dict[str, Any]:
        arguments: dict[str, Any] = super()._build_queue_arguments(queue_name)
        return {**arguments, "x-consumer-timeout": CONSUMER_TIMEOUT_MS}


class QuorumBroker(ClassicBroker):
    def _build_queue_arguments(self, queue_name: str) -> dict[str, Any]:
        arguments = super()._build_queue_arguments(queue_name)
        return {**arguments, "x-queue-type": "quorum", "x-submission-limit": SUBMISSION_LIMIT}
