import msgspec

from borzoi.model.topics import Compression
from borzoi.model.value import Value
from borzoi.protocol.rest.mirroring import Converted, Document, items, mirrors, size, word
from borzoi.protocol.rest.words import COMPRESSIONS


class Page(Value):
    number: int
    size_bytes: int


class Book(Value):
    title: str
    compression: Compression
    pages: tuple[Page, ...]

    @property
    def pages_count(self) -> int:
        return len(self.pages)


@mirrors(Page, Converted("page", "number"), size("size", "size_bytes"))
class PageDocument(Document):
    page: int
    size: str | int


@mirrors(Book, word("packed", "compression", COMPRESSIONS))
class BookDocument(Document):
    title: str
    packed: str
    pages_count: int


@mirrors(Book, items("pages", PageDocument))
class WholeBookDocument(BookDocument):
    pages: list[PageDocument] = msgspec.field(default_factory=list)


BOOK = Book("b", Compression.GZIP, (Page(1, 1103),))


def test_a_document_has_the_attributes_of_its_response_under_its_own_names() -> None:
    assert msgspec.json.encode(BookDocument.of(BOOK)) == (
        b'{"title":"b","packed":"gzip","pages_count":1}'
    )


def test_the_conversions_of_a_base_hold_for_the_document_with_the_items() -> None:
    document = WholeBookDocument.of(BOOK)
    assert msgspec.json.encode(document) == (
        b'{"title":"b","packed":"gzip","pages_count":1,"pages":[{"page":1,"size":"1.103 KB"}]}'
    )
    assert document.response() == BOOK


def test_what_the_response_works_out_itself_is_not_read() -> None:
    assert WholeBookDocument("b", "gzip", 5).response() == Book("b", Compression.GZIP, ())
