"""The way through RabbitMQ: `tox run -e rabbitmq`, or `pytest --ds=tests.variants.rabbitmq`."""

from collections.abc import Iterator
from typing import Any

import dramatiq
import pytest
from django.conf import settings

from tests.factories import make_page, publish
from wagtail_indexnow import tasks
from wagtail_indexnow.diagnostics import brokers
from wagtail_indexnow.diagnostics.health import check_all
from wagtail_indexnow.relay.dispatch import tick
from wagtail_indexnow.relay.senders import DramatiqCourier

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(
        not settings.DRAMATIQ_BROKER["BROKER"].endswith("RabbitmqBroker"),
        reason="needs --ds=tests.variants.rabbitmq and a RabbitMQ",
    ),
]


@pytest.fixture
def worker(indexnow: Any) -> Iterator[dramatiq.Worker]:
    """A worker of one thread on our own queue, which is deleted afterwards."""
    indexnow.configure(SETTLE_SECONDS=0, HOST_INTERVAL=0, RATE_LIMIT=6000)
    broker: Any = dramatiq.get_broker()
    queue = tasks.announce.queue_name
    worker = dramatiq.Worker(broker, queues={queue}, worker_threads=1, worker_timeout=100)
    worker.start()
    yield worker
    worker.stop()
    for name in (queue, f"{queue}.DQ", f"{queue}.XQ"):
        broker.channel.queue_delete(name)
    broker.close()


def test_published_page_is_told_through_rabbitmq(
    indexnow: Any, site: Any, worker: dramatiq.Worker
) -> None:
    publish(make_page(site.root_page, "news"))

    for _step in ("announce", "submit"):
        assert tick(DramatiqCourier())
        worker.broker.join(tasks.announce.queue_name, timeout=20_000)
        worker.join()

    assert indexnow.told() == ["https://www.example.com/en/news/"]
    assert not tick(DramatiqCourier())
    found = {finding.name: finding.severity for finding in check_all()}
    assert found["broker"] == found["worker"] == "ok"


def test_rabbitmq_answers_the_question_whether_it_is_there() -> None:
    assert brokers.ask(dramatiq.get_broker()) == brokers.BrokerAnswer()


def test_d16_rabbitmq_that_is_away_is_said_to_be() -> None:
    from dramatiq.brokers.rabbitmq import RabbitmqBroker

    away = RabbitmqBroker(url="amqp://guest:guest@127.0.0.1:1/", middleware=[])

    assert brokers.ask(away).error
