"""Ask the site's Dramatiq broker whether it is there, in bounded time.

Redis and RabbitMQ clients wait and try again for much longer than a person who only wants to
know; so the question is asked in a thread that is left behind when time is up.
"""

import threading
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

import dramatiq

TIMEOUT_S = 5.0


@dataclass(frozen=True, kw_only=True)
class BrokerAnswer:
    """What came back. `eviction` is Redis's policy, if it may throw messages away."""

    error: str = ""
    is_known: bool = True  # whether this kind of broker can be asked at all
    eviction: str = ""


def ask(broker: dramatiq.Broker, *, timeout_s: float = TIMEOUT_S) -> BrokerAnswer:
    """Return what the broker answers within the given time; never raises."""
    answers: SimpleQueue[BrokerAnswer] = SimpleQueue()

    def put() -> None:
        try:
            answers.put(_ask(broker))
        except Exception as error:
            answers.put(BrokerAnswer(error=f"{type(error).__name__}: {error}"[:300]))

    threading.Thread(target=put, name="wagtail_indexnow.broker", daemon=True).start()
    try:
        return answers.get(timeout=timeout_s)
    except Empty:
        return BrokerAnswer(error=f"no answer within {timeout_s:g} s")


def _ask(broker: Any) -> BrokerAnswer:
    # By what they have, not by class: their modules import clients that a site may not have.
    if hasattr(broker, "client"):
        return _ask_redis(broker.client)
    if hasattr(type(broker), "connection"):
        _ask_rabbitmq(broker)
        return BrokerAnswer()
    return BrokerAnswer(is_known=False)


def _ask_redis(client: Any) -> BrokerAnswer:
    # INFO and not CONFIG GET, which hosted Redis refuses.
    memory = client.info("memory")
    policy = str(memory.get("maxmemory_policy", ""))
    # Dramatiq's keys never expire, so that `volatile-…` leaves them alone.
    evicts = bool(memory.get("maxmemory")) and policy.startswith("allkeys-")
    return BrokerAnswer(eviction=policy if evicts else "")


def _ask_rabbitmq(broker: Any) -> None:
    connection = broker.connection  # opens one for this thread
    try:
        connection.process_data_events(time_limit=0)
    finally:
        del broker.connection
