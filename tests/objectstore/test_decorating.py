import inspect

from borzoi.objectstore.decorating import StoreDecorator
from borzoi.objectstore.interface import PART_BYTES_MIN, ObjectStore
from borzoi.objectstore.memory import MemoryStore


class Noting(StoreDecorator):
    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self.noted: list[tuple[str, str, int]] = []

    async def around(self, op, key, size, request):
        self.noted.append((op, key, size))
        return await request()


async def test_every_request_passes_the_one_method() -> None:
    store = Noting(MemoryStore())
    await store.put("a", b"12345")
    await store.create("b", b"123")
    await store.get("a")
    await store.get_range("a", 1, 3)
    await store.get_range("a", 2, 2)  # needs no request
    await store.get_ranges("a", [(0, 1), (2, 5)])
    await store.get_suffix("a", 2)
    await store.head("a")
    await store.list_page("")
    upload = store.open_multipart("c", part_size=PART_BYTES_MIN)
    await upload.part(b"1234567")
    await upload.complete()
    await upload.abort()
    await store.delete("a")
    await store.delete_many(["b", "c"])
    await store.delete_many([])
    await store.close()
    assert store.noted == [
        ("put", "a", 5),
        ("create", "b", 3),
        ("get", "a", 0),
        ("get_range", "a", 2),
        ("get_ranges", "a", 4),
        ("get_suffix", "a", 2),
        ("head", "a", 0),
        ("list_page", "", 0),
        ("part", "c", 7),
        ("complete", "c", 0),
        ("delete", "a", 0),
        ("delete_many", "b", 0),
        ("delete_many", "", 0),
    ]


def test_nothing_of_the_interface_is_forgotten() -> None:
    methods = {name for name, _ in inspect.getmembers(ObjectStore, inspect.isfunction)}
    wanted = {name for name in methods if not name.startswith("_")}
    assert wanted <= set(vars(StoreDecorator))
