import pytest

from borzoi.model.errors import FeatureUnavailable
from borzoi.protocol.catalog import REQUESTS
from borzoi.protocol.commands.groups import JoinConsumerGroup, LeaveConsumerGroup
from borzoi.protocol.commands.streams import GetStream
from borzoi.protocol.commands.system import GetMe
from borzoi.protocol.rest import routes
from borzoi.protocol.rest.documents import DOCUMENTS

#: They speak about a session, and HTTP has none.
WITHOUT_ROUTE = {JoinConsumerGroup, LeaveConsumerGroup, GetMe}
#: They are HTTP's own.
ONLY_HERE = {
    routes.Welcome,
    routes.GetMetrics,
    routes.RefreshToken,
    routes.GetLiveness,
    routes.GetReadiness,
    routes.GetDescription,
    routes.GetGuide,
    routes.FollowMessages,
}


def test_every_request_of_the_protocol_has_one_route_but_for_those_about_sessions() -> None:
    routed = [route.request for route in routes.ROUTES]
    assert len(routed) == len(set(routed))
    assert set(routed) - ONLY_HERE == set(REQUESTS.values()) - WITHOUT_ROUTE


def test_no_two_routes_have_the_same_method_and_path() -> None:
    assert (
        len({(route.method, route.template) for route in routes.ROUTES}) == len(routes.ROUTES) == 52
    )


def test_every_answer_is_a_document_a_text_an_archive_or_nothing() -> None:
    assert {route.answer for route in routes.ROUTES} - set(DOCUMENTS) == {str, bytes, None}
    assert set(DOCUMENTS) - {route.answer for route in routes.ROUTES} == set()


def test_bytes_say_what_they_are() -> None:
    assert all(bool(route.media) == (route.answer is bytes) for route in routes.ROUTES)


def test_only_a_route_with_a_document_can_say_less_than_no_content() -> None:
    assert {route.status for route in routes.ROUTES if route.method in ("PUT", "DELETE")} == {204}
    assert all(route.answer is None for route in routes.ROUTES if route.status == 204)


def test_a_request_finds_its_route() -> None:
    route = routes.route_of(GetStream(1))
    assert (route.method, route.template) == ("GET", "/streams/{stream_id}")
    assert route.segments == ("streams", "{stream_id}")


def test_a_request_without_a_route_says_so() -> None:
    with pytest.raises(FeatureUnavailable, match="no GetMe over HTTP"):
        routes.route_of(GetMe())


def test_public_paths_are_routes_or_the_console() -> None:
    assert {route.template for route in routes.ROUTES} >= routes.PUBLIC_PATHS - {"/ui"}


def test_a_token_is_not_shown() -> None:
    assert "secret" not in repr(routes.RefreshToken("secret"))
