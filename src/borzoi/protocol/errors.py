"""Every status the protocol knows: the one table between exceptions, numbers and HTTP.

A status is a number on the binary transports and ``{"id", "code", "reason", "field"}`` over HTTP.
The server asks `code_of` an exception, a client asks `error_of` a number, and both find the same
row. A number that no class stands for stays a `ServerError` and keeps its number.
"""

from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Final, NamedTuple

from borzoi.model.errors import (
    BorzoiError,
    BufferFull,
    CannotChangeRootPermissions,
    CannotConnect,
    CannotDecrypt,
    CannotDeleteRoot,
    CannotEncrypt,
    CannotSync,
    ClientClosed,
    ClientNotFound,
    ConnectionLost,
    ConsumerNotResolved,
    ConsumerOffsetNotFound,
    Disconnected,
    FeatureUnavailable,
    GroupNameTaken,
    GroupNotFound,
    InvalidAccessToken,
    InvalidBatch,
    InvalidChecksum,
    InvalidClientId,
    InvalidCommand,
    InvalidConfiguration,
    InvalidConnectionString,
    InvalidCredentials,
    InvalidEncryptionKey,
    InvalidFormat,
    InvalidGroupName,
    InvalidHeaderKey,
    InvalidHeaderKind,
    InvalidHeaderValue,
    InvalidIdentifier,
    InvalidIndexPosition,
    InvalidKeyLength,
    InvalidMessagesCount,
    InvalidMessagesSize,
    InvalidNumber,
    InvalidOffset,
    InvalidPartitionsCount,
    InvalidPassword,
    InvalidReplicationFactor,
    InvalidReservedField,
    InvalidStreamName,
    InvalidToken,
    InvalidTokenName,
    InvalidTopicName,
    InvalidTopicSize,
    InvalidUsername,
    InvalidVersion,
    LimitReached,
    MemberNotFound,
    MessageTooSmall,
    MissingIndex,
    NonZeroIndexOffset,
    NonZeroIndexTimestamp,
    NoPartitions,
    PartitionNotFound,
    PayloadTooBig,
    ProducerClosed,
    RequestTimeout,
    ResourceNotFound,
    SegmentNotFound,
    ServerError,
    StaleClient,
    StateCorrupted,
    StorageFailure,
    StreamNameTaken,
    StreamNotFound,
    TokenExpired,
    TokenNameTaken,
    TokensLimitReached,
    TooManyPartitions,
    TopicFull,
    TopicNameTaken,
    TopicNotFound,
    Unauthenticated,
    Unauthorized,
    UserHeadersTooBig,
    UserInactive,
    UserNameTaken,
    UsersLimitReached,
)

NOT_FOUND: Final = HTTPStatus.NOT_FOUND
UNAUTHORIZED: Final = HTTPStatus.UNAUTHORIZED
FORBIDDEN: Final = HTTPStatus.FORBIDDEN

#: What an exception is answered with when neither its class nor an ancestor of it has a row.
CATCH_ALL: Final = 1


class ErrorRow(NamedTuple):
    """One status; `field` names the part of the request that an HTTP error body blames."""

    code: int
    name: str
    error: type[BorzoiError] = ServerError
    http_status: HTTPStatus = HTTPStatus.BAD_REQUEST
    field: str | None = None

    @property
    def sentence(self) -> str:
        """The name as words, which is also the reason the published servers give."""
        return self.name.replace("_", " ").capitalize()


#: In the order of their numbers. The families have numbers where no narrower class fits:
#: `InvalidBatch` a message that contradicts its own lengths, `LimitReached` a value too large for
#: its field, `ConnectionLost` the failure after which clients reconnect, `StorageFailure` any I/O.
ERRORS: Final[tuple[ErrorRow, ...]] = (
    ErrorRow(1, "error"),
    ErrorRow(2, "invalid_configuration", InvalidConfiguration),
    ErrorRow(3, "invalid_command", InvalidCommand),
    ErrorRow(4, "invalid_format", InvalidFormat),
    ErrorRow(5, "feature_unavailable", FeatureUnavailable),
    ErrorRow(6, "invalid_identifier", InvalidIdentifier),
    ErrorRow(7, "invalid_version", InvalidVersion),
    ErrorRow(8, "disconnected", Disconnected),
    ErrorRow(9, "cannot_establish_connection", CannotConnect),
    ErrorRow(10, "cannot_create_base_directory"),
    ErrorRow(11, "cannot_create_runtime_directory"),
    ErrorRow(12, "cannot_remove_runtime_directory"),
    ErrorRow(13, "cannot_create_state_directory"),
    ErrorRow(14, "state_file_not_found"),
    ErrorRow(15, "state_file_corrupted", StateCorrupted),
    ErrorRow(16, "invalid_state_entry_checksum"),
    ErrorRow(19, "cannot_open_database"),
    ErrorRow(20, "resource_not_found", ResourceNotFound, NOT_FOUND),
    ErrorRow(21, "cannot_close_web_socket_connection"),
    ErrorRow(30, "stale_client", StaleClient),
    ErrorRow(31, "tcp_error", ConnectionLost),
    ErrorRow(32, "quic_error"),
    ErrorRow(33, "invalid_server_address"),
    ErrorRow(34, "invalid_client_address"),
    ErrorRow(35, "invalid_ip_address"),
    ErrorRow(36, "http_error"),
    ErrorRow(40, "unauthenticated", Unauthenticated, UNAUTHORIZED),
    ErrorRow(41, "unauthorized", Unauthorized, FORBIDDEN),
    ErrorRow(42, "invalid_credentials", InvalidCredentials),
    ErrorRow(43, "invalid_username", InvalidUsername),
    ErrorRow(44, "invalid_password", InvalidPassword),
    ErrorRow(45, "invalid_user_status"),
    ErrorRow(46, "user_already_exists", UserNameTaken, field="username"),
    ErrorRow(47, "user_inactive", UserInactive),
    ErrorRow(48, "cannot_delete_user", CannotDeleteRoot),
    ErrorRow(49, "cannot_change_permissions", CannotChangeRootPermissions),
    ErrorRow(50, "invalid_personal_access_token_name", InvalidTokenName),
    ErrorRow(51, "personal_access_token_already_exists", TokenNameTaken, field="name"),
    ErrorRow(52, "personal_access_tokens_limit_reached", TokensLimitReached),
    ErrorRow(53, "invalid_personal_access_token", InvalidToken, UNAUTHORIZED),
    ErrorRow(54, "personal_access_token_expired", TokenExpired),
    ErrorRow(55, "users_limit_reached", UsersLimitReached),
    ErrorRow(61, "not_connected"),
    ErrorRow(63, "client_shutdown", ClientClosed),
    ErrorRow(64, "invalid_tls_domain"),
    ErrorRow(65, "invalid_tls_certificate_path"),
    ErrorRow(66, "invalid_tls_certificate"),
    ErrorRow(67, "failed_to_add_certificate"),
    ErrorRow(70, "invalid_encryption_key", InvalidEncryptionKey),
    ErrorRow(71, "cannot_encrypt_data", CannotEncrypt),
    ErrorRow(72, "cannot_decrypt_data", CannotDecrypt),
    ErrorRow(73, "invalid_jwt_algorithm"),
    ErrorRow(74, "invalid_jwt_secret"),
    ErrorRow(75, "jwt_missing"),
    ErrorRow(76, "cannot_generate_jwt"),
    ErrorRow(77, "access_token_missing", http_status=UNAUTHORIZED),
    ErrorRow(78, "invalid_access_token", InvalidAccessToken, UNAUTHORIZED),
    ErrorRow(79, "cannot_fetch_jwks"),
    ErrorRow(80, "invalid_size_bytes", LimitReached),
    ErrorRow(81, "invalid_utf8"),
    ErrorRow(82, "invalid_number_encoding", InvalidNumber),
    ErrorRow(83, "invalid_boolean_value"),
    ErrorRow(84, "invalid_number_value"),
    ErrorRow(100, "client_not_found", ClientNotFound, NOT_FOUND, "client_id"),
    ErrorRow(101, "invalid_client_id", InvalidClientId),
    ErrorRow(206, "connection_closed"),
    ErrorRow(209, "cannot_parse_header_kind"),
    ErrorRow(300, "http_response_error"),
    ErrorRow(301, "invalid_http_request"),
    ErrorRow(302, "invalid_json_response"),
    ErrorRow(303, "invalid_bytes_response"),
    ErrorRow(304, "empty_response"),
    ErrorRow(305, "cannot_create_endpoint"),
    ErrorRow(306, "cannot_parse_url"),
    ErrorRow(400, "web_socket_error"),
    ErrorRow(401, "web_socket_connection_error"),
    ErrorRow(402, "web_socket_close_error"),
    ErrorRow(403, "web_socket_receive_error"),
    ErrorRow(404, "web_socket_send_error"),
    ErrorRow(1000, "cannot_create_streams_directory"),
    ErrorRow(1001, "cannot_create_stream_directory"),
    ErrorRow(1002, "cannot_create_stream_info"),
    ErrorRow(1003, "cannot_update_stream_info"),
    ErrorRow(1004, "cannot_open_stream_info"),
    ErrorRow(1005, "cannot_read_stream_info"),
    ErrorRow(1006, "cannot_create_stream"),
    ErrorRow(1007, "cannot_delete_stream"),
    ErrorRow(1008, "cannot_delete_stream_directory"),
    ErrorRow(1009, "stream_id_not_found", StreamNotFound, NOT_FOUND, "stream_id"),
    ErrorRow(1010, "stream_name_not_found"),
    ErrorRow(1011, "stream_directory_not_found"),
    ErrorRow(1012, "stream_name_already_exists", StreamNameTaken, field="name"),
    ErrorRow(1013, "invalid_stream_name", InvalidStreamName, field="name"),
    ErrorRow(1014, "invalid_stream_id", field="stream_id"),
    ErrorRow(1015, "cannot_read_streams"),
    ErrorRow(1019, "invalid_topic_size", InvalidTopicSize),
    ErrorRow(2000, "cannot_create_topics_directory"),
    ErrorRow(2001, "cannot_create_topic_directory"),
    ErrorRow(2002, "cannot_create_topic_info"),
    ErrorRow(2003, "cannot_update_topic_info"),
    ErrorRow(2004, "cannot_open_topic_info"),
    ErrorRow(2005, "cannot_read_topic_info"),
    ErrorRow(2006, "cannot_create_topic"),
    ErrorRow(2007, "cannot_delete_topic"),
    ErrorRow(2008, "cannot_delete_topic_directory"),
    ErrorRow(2009, "cannot_poll_topic"),
    ErrorRow(2010, "topic_id_not_found", TopicNotFound, NOT_FOUND, "topic_id"),
    ErrorRow(2011, "topic_name_not_found"),
    ErrorRow(2013, "topic_name_already_exists", TopicNameTaken, field="name"),
    ErrorRow(2014, "invalid_topic_name", InvalidTopicName, field="name"),
    ErrorRow(2015, "too_many_partitions", TooManyPartitions),
    ErrorRow(2016, "invalid_topic_id"),
    ErrorRow(2017, "cannot_read_topics"),
    ErrorRow(2018, "invalid_replication_factor", InvalidReplicationFactor),
    ErrorRow(2019, "invalid_partitions_count", InvalidPartitionsCount),
    ErrorRow(2020, "topic_directory_not_found"),
    ErrorRow(3000, "cannot_create_partition"),
    ErrorRow(3001, "cannot_create_partitions_directory"),
    ErrorRow(3002, "cannot_create_partition_directory"),
    ErrorRow(3003, "cannot_open_partition_log_file"),
    ErrorRow(3004, "cannot_read_partitions"),
    ErrorRow(3005, "cannot_delete_partition"),
    ErrorRow(3006, "cannot_delete_partition_directory"),
    ErrorRow(3007, "partition_not_found", PartitionNotFound, NOT_FOUND, "partition_id"),
    ErrorRow(3008, "no_partitions", NoPartitions),
    ErrorRow(3009, "topic_full", TopicFull),
    ErrorRow(3010, "cannot_delete_consumer_offsets_directory"),
    ErrorRow(3011, "cannot_delete_consumer_offset_file"),
    ErrorRow(3012, "cannot_create_consumer_offsets_directory"),
    ErrorRow(3020, "cannot_read_consumer_offsets"),
    ErrorRow(3021, "consumer_offset_not_found", ConsumerOffsetNotFound, NOT_FOUND),
    ErrorRow(3022, "not_resolved_consumer", ConsumerNotResolved),
    ErrorRow(3023, "cannot_open_consumer_offsets_file"),
    ErrorRow(4000, "segment_not_found", SegmentNotFound, NOT_FOUND, "segment_id"),
    ErrorRow(4001, "segment_closed"),
    ErrorRow(4002, "invalid_segment_size"),
    ErrorRow(4003, "cannot_create_segment_log_file"),
    ErrorRow(4004, "cannot_create_segment_index_file"),
    ErrorRow(4005, "cannot_create_segment_time_index_file"),
    ErrorRow(4006, "cannot_save_messages_to_segment"),
    ErrorRow(4007, "cannot_save_index_to_segment"),
    ErrorRow(4008, "cannot_save_time_index_to_segment"),
    ErrorRow(4009, "invalid_messages_count", InvalidMessagesCount),
    ErrorRow(4010, "cannot_append_message"),
    ErrorRow(4011, "cannot_read_message"),
    ErrorRow(4012, "cannot_read_message_id"),
    ErrorRow(4013, "cannot_read_message_state"),
    ErrorRow(4014, "cannot_read_message_timestamp"),
    ErrorRow(4015, "cannot_read_headers_length"),
    ErrorRow(4016, "cannot_read_headers_payload"),
    ErrorRow(4017, "too_big_user_headers", UserHeadersTooBig),
    ErrorRow(4018, "invalid_header_key", InvalidHeaderKey),
    ErrorRow(4019, "invalid_header_value", InvalidHeaderValue),
    ErrorRow(4020, "cannot_read_message_length"),
    ErrorRow(4021, "cannot_read_message_payload"),
    ErrorRow(4022, "too_big_message_payload", PayloadTooBig),
    ErrorRow(4023, "too_many_messages"),
    ErrorRow(4024, "empty_message_payload"),
    ErrorRow(4025, "invalid_message_payload_length", InvalidBatch),
    ErrorRow(4026, "cannot_read_message_checksum"),
    ErrorRow(4027, "invalid_message_checksum", InvalidChecksum),
    ErrorRow(4028, "invalid_key_value_length", InvalidKeyLength),
    ErrorRow(4029, "command_length_error"),
    ErrorRow(4030, "invalid_segments_count"),
    ErrorRow(4031, "non_zero_offset", NonZeroIndexOffset),
    ErrorRow(4032, "non_zero_timestamp", NonZeroIndexTimestamp),
    ErrorRow(4033, "missing_index", MissingIndex),
    ErrorRow(4034, "invalid_indexes_byte_size"),
    ErrorRow(4035, "invalid_indexes_count"),
    ErrorRow(4036, "invalid_messages_size", InvalidMessagesSize),
    ErrorRow(4037, "too_small_message", MessageTooSmall),
    ErrorRow(4038, "invalid_message_timestamp_delta"),
    ErrorRow(4039, "invalid_batch_checksum"),
    ErrorRow(4040, "invalid_header_kind", InvalidHeaderKind),
    ErrorRow(4050, "cannot_send_messages_due_to_client_disconnection"),
    ErrorRow(4051, "background_send_error"),
    ErrorRow(4052, "background_send_timeout"),
    ErrorRow(4053, "background_send_buffer_full", BufferFull),
    ErrorRow(4054, "background_worker_disconnected"),
    ErrorRow(4055, "background_send_buffer_overflow"),
    ErrorRow(4056, "producer_send_failed"),
    ErrorRow(4057, "producer_closed", ProducerClosed),
    ErrorRow(4100, "invalid_offset", InvalidOffset, field="offset"),
    ErrorRow(4101, "invalid_reserved_field", InvalidReservedField),
    ErrorRow(5000, "consumer_group_id_not_found", GroupNotFound, NOT_FOUND),
    ErrorRow(5002, "invalid_consumer_group_id", field="consumer_group_id"),
    ErrorRow(5003, "consumer_group_name_not_found", http_status=NOT_FOUND),
    ErrorRow(5004, "consumer_group_name_already_exists", GroupNameTaken, field="name"),
    ErrorRow(5005, "invalid_consumer_group_name", InvalidGroupName),
    ErrorRow(5006, "consumer_group_member_not_found", MemberNotFound, NOT_FOUND),
    ErrorRow(5007, "cannot_create_consumer_group_info"),
    ErrorRow(5008, "cannot_delete_consumer_group_info"),
    ErrorRow(6000, "missing_base_offset_retained_message_batch"),
    ErrorRow(6001, "missing_last_offset_delta_retained_message_batch"),
    ErrorRow(6002, "missing_max_timestamp_retained_message_batch"),
    ErrorRow(6003, "missing_length_retained_message_batch"),
    ErrorRow(6004, "missing_payload_retained_message_batch"),
    ErrorRow(7000, "cannot_read_batch_base_offset"),
    ErrorRow(7001, "cannot_read_batch_length"),
    ErrorRow(7002, "cannot_read_last_offset_delta"),
    ErrorRow(7003, "cannot_read_max_timestamp"),
    ErrorRow(7004, "cannot_read_batch_payload"),
    ErrorRow(8000, "invalid_connection_string", InvalidConnectionString),
    ErrorRow(9000, "snapshot_file_completion_failed"),
    ErrorRow(10000, "cannot_serialize_resource"),
    ErrorRow(10001, "cannot_deserialize_resource"),
    ErrorRow(10002, "cannot_read_file"),
    ErrorRow(10003, "cannot_read_file_metadata"),
    ErrorRow(10004, "cannot_seek_file"),
    ErrorRow(10005, "cannot_append_to_file"),
    ErrorRow(10006, "cannot_write_to_file"),
    ErrorRow(10007, "cannot_overwrite_file"),
    ErrorRow(10008, "cannot_delete_file"),
    ErrorRow(10009, "cannot_sync_file", CannotSync),
    ErrorRow(10010, "cannot_read_index_offset"),
    ErrorRow(10011, "cannot_read_index_position", InvalidIndexPosition),
    ErrorRow(10012, "cannot_read_index_timestamp"),
    ErrorRow(10013, "timestamp_out_of_range"),
    ErrorRow(11000, "shard_not_found"),
    ErrorRow(11001, "shard_communication_error"),
    ErrorRow(12000, "cannot_bind_to_socket"),
    ErrorRow(12001, "task_timeout", RequestTimeout),
    ErrorRow(13000, "io_error", StorageFailure),
)

_BY_CODE: Final[Mapping[int, ErrorRow]] = MappingProxyType({row.code: row for row in ERRORS})
# Each class carries its own number and name; one without a row has those of its parent.
for _row in ERRORS:
    if _row.error is not ServerError:
        _row.error.code, _row.error.name = _row.code, _row.name

#: Statuses that transports answer with before a request is decoded.
INVALID_COMMAND: Final = InvalidCommand.code
UNAUTHENTICATED: Final = Unauthenticated.code


def row_of(code: int) -> ErrorRow:
    """The row of a status; an unknown number reads like the catch-all but stays itself."""
    row = _BY_CODE.get(code)
    return _BY_CODE[CATCH_ALL]._replace(code=code) if row is None else row


def code_of(error: BorzoiError) -> int:
    """The status that answers the exception: its own, else that of its nearest ancestor."""
    return error.code


def error_of(code: int, message: str = "") -> BorzoiError:
    """The exception a status stands for, ready to raise."""
    row = row_of(code)
    sentence = message or row.sentence
    if row.error is ServerError:
        error = ServerError(code, f"{sentence} (status {code})")
        error.name = row.name
        return error
    return row.error(sentence)
