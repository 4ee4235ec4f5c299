import msgspec

from borzoi.model.topics import Compression
from borzoi.model.value import Value
from borzoi.protocol.commands.streams import StreamDetails
from borzoi.protocol.commands.topics import TopicInfo
from borzoi.protocol.rest.mirroring import Converted, Document, mirrors, size, word
from borzoi.protocol.rest.resources import StreamDetailsDocument
from borzoi.protocol.rest.words import COMPRESSIONS


class Page(Value):
    number: int
    size_bytes: int
    compression: Compression


@mirrors(
    Page,
    Converted("page", "number"),
    size("size", "size_bytes"),
    word("packed", "compression", COMPRESSIONS),
)
class PageDocument(Document):
    page: int
    packed: str
    size: str | int


def test_a_document_has_the_attributes_of_its_response_under_its_own_names() -> None:
    page = Page(1, 1103, Compression.GZIP)
    document = PageDocument.of(page)
    assert msgspec.json.encode(document) == b'{"page":1,"packed":"gzip","size":"1.103 KB"}'
    assert document.response() == page


def test_the_conversions_of_a_base_hold_for_the_document_with_the_items() -> None:
    topic = TopicInfo(0, 1, 2, 0, Compression.LZ4, 0, 1, 972, 16, "t")
    document = StreamDetailsDocument.of(StreamDetails(0, 1, 1103, 16, "s", (topic,)))
    assert (document.size, document.topics[0].size) == ("1.103 KB", "972 B")
    assert document.response().topics == (topic,)


def test_what_the_response_works_out_itself_is_not_read() -> None:
    document = StreamDetailsDocument(0, 1, "s", 1103, 16, topics_count=5)
    assert document.response() == StreamDetails(0, 1, 1103, 16, "s", ())
