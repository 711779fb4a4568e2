"""What a broker answers about consumer groups: progress, resets, settings.

The columns of `consumerProgress`, for each queue: the end is the broker's offset, the first index that is not
acked the consumer's. In flight is what clients hold; where acked messages lie between others, the difference
is an upper bound of what is to be done, since the offset is a position.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from milepost.broker.auth.operations import Operation
from milepost.broker.messages.lookup_by_index import came_ms
from milepost.broker.monitoring.overview import survey
from milepost.broker.monitoring.progress import Progress
from milepost.broker.operations import reset as resets
from milepost.broker.operations.reset import LATEST, Move, Reset, Target
from milepost.errors import InvalidInput, SubscriptionNotFound
from milepost.positions.names import TopicName
from milepost.rocketmq import names
from milepost.rocketmq import rocketmq_pb2 as pb
from milepost.rocketmq.remoting import group_settings, json_text
from milepost.rocketmq.remoting.codes import Ask, RemotingRefusal, Status
from milepost.rocketmq.remoting.frames import Flag
from milepost.rocketmq.remoting.json_text import Queue
from milepost.rocketmq.remoting.name_server import group_names, is_known_group, queue_names
from milepost.rocketmq.remoting.request import RETRIES, Answer, Request, queues_of

if TYPE_CHECKING:
    from milepost.broker.broker import Broker

# Of a reset: the end.
END = -1
ANY = -1


# -- progress ----------------------------------------------------------------------------------------


async def get_progress(request: Request) -> Answer:
    """Where a group stands, on one topic or on all of them."""
    group = request.group()
    table: dict[Queue, Any] = {}
    rate = 0.0
    for line in await lines_of(request, group):
        name = TopicName.parse(line.topic)
        done = line.mark_delete_index + 1
        table[Queue(name.base.local_name, max(name.partition, 0))] = {
            "brokerOffset": line.end,
            "consumerOffset": done,
            "lastTimestamp": await _came_ms(request.broker, name, done - 1),
            "pullOffset": done + line.inflight,
        }
        rate += line.rate_acked
    if not table:
        await check_known(request, group)
    return Answer(body=json_text.encode({"consumeTps": rate, "offsetTable": table}))


async def lines_of(request: Request, group: str) -> list[Progress]:
    """The progress of a group on the topic that a request names, or on all that the client may see."""
    broker = request.broker
    asked = request.command.fields.get("topic", "")
    if asked.startswith(RETRIES):
        return []
    if asked:
        name = request.known_topic(Operation.CONSUME, group)
        queues: Iterable[TopicName] = queues_of(broker, name)
    else:
        request.check_namespace(Operation.LIST_TOPICS)
        every = queue_names(broker)
        queues = (one for one in every if request.may(Operation.CONSUME, one.base, group))
    return [line async for line in survey(broker, queues, group) if not line.member]


async def check_known(request: Request, group: str) -> None:
    """`SubscriptionNotFound` for a group that has neither a subscription nor settings."""
    if not await is_known_group(request.broker, group):
        raise SubscriptionNotFound(f"there is no consumer group {group}")


async def _came_ms(broker: Broker, name: TopicName, index: int) -> int:
    """When a message came; 0 if it is not there any more."""
    topic = await broker.topic(name, create=False)

    def step() -> int:
        log = topic.log
        return came_ms(log, index) if log.first_index <= index < log.end_index else 0

    return await broker.engine.look(step)


# -- resets ------------------------------------------------------------------------------------------


async def reset(request: Request) -> Answer:
    """Move a group on a topic, or on one of its queues; it is on disk when this is answered, and consumers
    that are connected obey at once."""
    group = request.group("group")
    name = request.known_topic(Operation.CONSUME, group)
    queues = queues_of(request.broker, name)
    number = request.number("queueId", low=ANY, high=len(queues) - 1, default=ANY)
    offset = request.number("offset", low=-1, default=-1)
    time_ms = request.number("timestamp", low=END, default=END)
    if number != ANY and offset >= 0:
        target, is_forced = Target(index=offset), True
    else:
        target = Target(edge=LATEST) if time_ms == END else Target(time_ms=time_ms)
        is_forced = request.flag("isForce")
    whole = name if number == ANY else queues[number]
    moves = await _reset(request, whole, group, target, is_forced=is_forced)
    table = {Queue(name.local_name, max(one.partition, 0)): one.to for one in moves}
    return Answer(body=json_text.encode({"offsetTable": table}))


async def _reset(
    request: Request, name: TopicName, group: str, target: Target, *, is_forced: bool
) -> list[Move]:
    """Reset a topic or a queue. Without force nothing is skipped: queues whose target lies ahead stay."""
    broker = request.broker
    create = group in await group_settings.all_groups(broker)
    wanted = Reset(target, create=create)
    if is_forced:
        moves = await resets.reset(broker, name, group, wanted, by=request.who)
        _note(request, group, moves)
        return moves
    planned = await resets.reset(
        broker, name, group, Reset(target, create=create, dry_run=True), by=request.who
    )
    found = []
    for plan in planned:
        if plan.to >= plan.was:
            found.append(plan._replace(to=plan.was))
            continue
        moved = await resets.reset(
            broker, TopicName.parse(plan.topic), group, wanted, by=request.who
        )
        _note(request, group, moved)
        found += moved
    return found


def _note(request: Request, group: str, moves: Sequence[Move]) -> None:
    for move in moves:
        request.note("reset", move.topic, subscription=group, was=move.was, to=move.to)


async def put_offset(request: Request) -> Answer:
    """Move a group on one queue: mqadmin asks for it before a reset to an offset.

    Consumers of RocketMQ 4 commit with it and wait for no answer; what they commit is not taken: the broker
    knows what is acked.
    """
    if request.command.flag & Flag.ONE_WAY:
        raise RemotingRefusal(Status.REQUEST_CODE_NOT_SUPPORTED, "offsets are not committed here")
    group = request.group()
    name = request.known_topic(Operation.CONSUME, group)
    queues = queues_of(request.broker, name)
    number = request.number("queueId", high=len(queues) - 1)
    offset = request.number("commitOffset")
    await _reset(request, queues[number], group, Target(index=offset), is_forced=True)
    return Answer()


# -- settings ----------------------------------------------------------------------------------------


async def put_group(request: Request) -> Answer:
    """Keep the settings of a group; it need not have read anything yet."""
    request.check_namespace(Operation.ADMINISTER_NAMESPACE)
    told = json_text.decode(request.body)
    name = told.get("groupName")
    if not isinstance(name, str):
        raise InvalidInput("a group without groupName")
    group = names.group_of(pb.Resource(name=name))
    if told.get("consumeEnable") is False:
        raise RemotingRefusal(
            Status.INVALID_PARAMETER,
            f"consumeEnable = false for group {group}: a group that is there can be read by; "
            "deleteSubGroup deletes it",
        )
    broker, kept = request.broker, group_settings.checked(told)
    await group_settings.put(broker, group, kept)
    found = await group_settings.subscriptions_of(broker, queue_names(broker), group)
    await group_settings.apply(broker, found, kept)
    request.note("update-group", group, subscriptions=len(found))
    return Answer()


async def get_all_settings(request: Request) -> Answer:
    """The settings of every group, those of groups that were given none included."""
    request.check_namespace(Operation.LIST_TOPICS)
    broker = request.broker
    kept = await group_settings.all_groups(broker)
    groups = {
        one: group_settings.shown(one, kept.get(one)) for one in sorted(await group_names(broker))
    }
    version = {"counter": len(kept), "stateVersion": 0, "timestamp": broker.clock.wall_ms()}
    found = {"dataVersion": version, "forbiddenTable": {}, "subscriptionGroupTable": groups}
    return Answer(body=json_text.encode(found))


async def delete_group(request: Request) -> Answer:
    """Forget the settings of a group; with `cleanOffset` also its subscriptions, and so where it stands."""
    group = request.group("groupName")
    request.check_namespace(Operation.ADMINISTER_NAMESPACE)
    broker = request.broker
    await group_settings.forget(broker, group)
    found = []
    if request.flag("cleanOffset"):
        found = await group_settings.subscriptions_of(broker, queue_names(broker), group)
    for one in found:
        before = one.cursor.mark_delete_index
        await broker.delete_subscription(one)
        request.note(
            "delete-subscription", one.topic.name, subscription=group, mark_delete_index=before
        )
    request.note("delete-group", group, subscriptions=len(found))
    return Answer()


HANDLERS = {
    Ask.GET_CONSUME_STATS: get_progress,
    Ask.INVOKE_BROKER_TO_RESET_OFFSET: reset,
    Ask.UPDATE_CONSUMER_OFFSET: put_offset,
    Ask.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: put_group,
    Ask.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: get_all_settings,
    Ask.DELETE_SUBSCRIPTIONGROUP: delete_group,
}
