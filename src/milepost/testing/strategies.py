"""Hypothesis strategies for Milepost's values, for your tests as for ours. Needs `hypothesis`.

Numbers lean to what breaks code: −1, the edges of their fields, and values close to one another, so
that two draws often meet. Every strategy gives values that are valid; texts and bytes that are not
belong to `hypothesis.strategies` itself.

    @given(spans(), st.data())
    def test_my_reader(span, data):
        pending = data.draw(ack_sets(size=span.count))
"""

from __future__ import annotations

from hypothesis import strategies as st

from milepost.positions.ackset import AckSet
from milepost.positions.ids import INT32_MAX, INT64_MAX, ChunkMessageId, MessageId, Position
from milepost.positions.names import NON_PERSISTENT, PERSISTENT, NamespaceName, TopicName
from milepost.positions.spans import INDEX_MAX, Span

# Small enough that shrunk examples read well, past one word of an ack set.
BATCH_SIZE_DRAWN_MAX = 200


def _numbers(maximum: int) -> st.SearchStrategy[int]:
    return st.one_of(
        st.integers(-1, 3),
        st.integers(0, 2**20),
        st.sampled_from([-maximum - 1, -2, 127, 128, 2**14, 2**21, maximum - 1, maximum]),
        st.integers(-maximum - 1, maximum),
    )


def int64s() -> st.SearchStrategy[int]:
    """Any number that a ledger or entry field can carry."""
    return _numbers(INT64_MAX)


def int32s() -> st.SearchStrategy[int]:
    """Any number that a partition, batch index or batch size field can carry."""
    return _numbers(INT32_MAX)


def positions() -> st.SearchStrategy[Position]:
    """Any position that an id can name, existing or not."""
    return st.builds(Position, int64s(), int64s())


def message_ids() -> st.SearchStrategy[MessageId]:
    """Any plain id that the wire can carry: in a batch or not, of a partition or not."""
    return st.builds(
        MessageId, int64s(), int64s(), partition=int32s(), batch_index=int32s(), batch_size=int32s()
    )


@st.composite
def chunk_message_ids(draw: st.DrawFn) -> ChunkMessageId:
    """Any chunk id: two chunks of one partition, in order."""
    partition = draw(int32s())
    first, last = sorted((draw(positions()), draw(positions())))
    return ChunkMessageId(
        MessageId(*first, partition=partition), MessageId(*last, partition=partition)
    )


def spans(first_index_max: int = INDEX_MAX - BATCH_SIZE_DRAWN_MAX) -> st.SearchStrategy[Span]:
    """The span of a message (mostly) or of a batch."""
    return st.builds(
        Span,
        st.one_of(st.integers(0, min(100, first_index_max)), st.integers(0, first_index_max)),
        st.one_of(st.just(1), st.integers(1, BATCH_SIZE_DRAWN_MAX)),
    )


@st.composite
def ack_sets(draw: st.DrawFn, size: int | None = None) -> AckSet:
    """A set of a batch of `size` messages, or of any size: full, empty, in runs or at random."""
    if size is None:
        size = draw(st.one_of(st.integers(1, BATCH_SIZE_DRAWN_MAX), st.sampled_from([63, 64, 65])))
    bits = draw(st.one_of(st.just(-1), st.just(0), st.integers(0, 2**size - 1)))
    first, end = sorted((draw(st.integers(0, size)), draw(st.integers(0, size))))
    run = (1 << end) - (1 << first)
    return AckSet(draw(st.sampled_from([bits, bits | run, bits & ~run])), size)


_PLAIN = st.text("abz09-=:._", min_size=1, max_size=12).filter(lambda part: part not in (".", ".."))

_LOCAL = st.one_of(
    _PLAIN,
    # Anything printable, blanks inside, letters of other scripts; no slash, encoded or not.
    st.text(
        st.characters(exclude_categories=["C", "Z"], exclude_characters="/%"),
        min_size=1,
        max_size=12,
    ).filter(lambda part: part not in (".", "..")),
    st.builds("{} {}".format, _PLAIN, _PLAIN),
)


def namespace_names() -> st.SearchStrategy[NamespaceName]:
    return st.builds("{}/{}".format, _PLAIN, _PLAIN).map(NamespaceName.parse)


def topic_names(*, partitions: bool = True) -> st.SearchStrategy[TopicName]:
    """Names of topics and, unless told otherwise, of partitions."""
    topics = st.builds(
        "{}://{}/{}".format,
        st.sampled_from([PERSISTENT, NON_PERSISTENT]),
        namespace_names(),
        _LOCAL.filter(lambda part: "-partition-" not in part),
    ).map(TopicName.parse)
    if not partitions:
        return topics
    return topics | st.builds(TopicName.partition_name, topics, st.integers(0, 1000))
