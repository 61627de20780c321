"""Ask the site's Dramatiq broker whether it is there, in bounded time.

Redis and RabbitMQ clients wait and try again for much longer than a person who only wants to
know; so the question is asked in a thread that is left behind when time is up.
"""

import threading
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

import dramatiq
import redis

TIMEOUT_S = 5.0


@dataclass(frozen=True, kw_only=True)
class BrokerAnswer:
    """What came back.

    `is_known`: this kind of broker can be asked. `refusal`: why it takes no message although it
    responds. `eviction`: Redis's policy, if it may discard messages.
    """

    error: str = ""
    is_known: bool = True
    refusal: str = ""
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
        return _ask_redis(broker)
    if hasattr(type(broker), "connection"):
        _ask_rabbitmq(broker)
        return BrokerAnswer()
    return BrokerAnswer(is_known=False)


def _ask_redis(broker: Any) -> BrokerAnswer:
    client = broker.client
    client.ping()
    return BrokerAnswer(refusal=_refusal(broker), eviction=_eviction(client))


def _refusal(broker: Any) -> str:
    """Return why Redis takes no writes: a replica, no memory left, a disk that is full."""
    try:
        # Below the broker's own prefix, which an ACL may limit its user to; gone in a second.
        broker.client.set(f"{broker.namespace}:wagtail_indexnow.check", 1, px=1_000)
    except redis.exceptions.NoPermissionError:
        return ""  # This user may not use SET; Dramatiq does not use it either.
    except redis.exceptions.ResponseError as error:
        return str(error)[:300]
    return ""


def _eviction(client: Any) -> str:
    try:
        # INFO and not CONFIG GET, which hosted Redis refuses.
        memory = client.info("memory")
    except redis.exceptions.ResponseError:
        return ""  # A user without INFO: what cannot be read is no finding.
    policy = str(memory.get("maxmemory_policy", ""))
    # Dramatiq's keys never expire, so that `volatile-…` leaves them alone.
    is_evicting = bool(memory.get("maxmemory")) and policy.startswith("allkeys-")
    return policy if is_evicting else ""


def _ask_rabbitmq(broker: Any) -> None:
    connection = broker.connection  # opens one for this thread
    try:
        connection.process_data_events(time_limit=0)
    finally:
        del broker.connection
