import static java.util.Optional.empty;

import java.math.BigInteger;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.iggy.client.blocking.tcp.IggyTcpClient;
import org.apache.iggy.consumergroup.Consumer;
import org.apache.iggy.consumergroup.ConsumerGroupMember;
import org.apache.iggy.exception.IggyNotConnectedException;
import org.apache.iggy.exception.IggyServerException;
import org.apache.iggy.identifier.ConsumerId;
import org.apache.iggy.identifier.StreamId;
import org.apache.iggy.identifier.TopicId;
import org.apache.iggy.identifier.UserId;
import org.apache.iggy.message.HeaderKey;
import org.apache.iggy.message.HeaderValue;
import org.apache.iggy.message.Message;
import org.apache.iggy.message.Partitioning;
import org.apache.iggy.message.PolledMessages;
import org.apache.iggy.message.PollingStrategy;
import org.apache.iggy.topic.CompressionAlgorithm;
import org.apache.iggy.user.GlobalPermissions;
import org.apache.iggy.user.Permissions;
import org.apache.iggy.user.StreamPermissions;
import org.apache.iggy.user.TopicPermissions;
import org.apache.iggy.user.UserStatus;

/**
 * What people do with the published Java client, each scenario ending where its claim was seen.
 *
 * <p>{@code Scenarios NAME HOST:PORT [CERTIFICATE_FILE]} exits with 0 when the scenario held, and with a stack trace
 * when it did not.
 */
public final class Scenarios {
    private static final int UNAUTHORIZED = 41;
    private static final int INVALID_CREDENTIALS = 42;
    private static final int USER_EXISTS = 46;
    private static final int USER_INACTIVE = 47;
    private static final int TOKEN_EXISTS = 51;
    private static final int RESOURCE_NOT_FOUND = 20;
    private static final int STREAM_EXISTS = 1012;
    private static final int TOPIC_EXISTS = 2013;
    private static final int PARTITION_NOT_FOUND = 3007;
    private static final int INVALID_OFFSET = 4100;
    private static final int GROUP_EXISTS = 5004;
    private static final int NOT_A_MEMBER = 5006;

    private static final BigInteger SERVER_DEFAULT = BigInteger.ZERO;
    private static final Map<String, Runnable> SCENARIOS = Map.ofEntries(
            Map.entry("login", Scenarios::login),
            Map.entry("tokens", Scenarios::tokens),
            Map.entry("streams", Scenarios::streams),
            Map.entry("topics", Scenarios::topics),
            Map.entry("sending", Scenarios::sending),
            Map.entry("polling", Scenarios::polling),
            Map.entry("offsets", Scenarios::offsets),
            Map.entry("groups", Scenarios::groups),
            Map.entry("users", Scenarios::users),
            Map.entry("permissions", Scenarios::permissions),
            Map.entry("tls", Scenarios::tls));

    private static String host;
    private static int port;
    private static String certificateFile = "";

    public static void main(String[] arguments) {
        String[] address = arguments[1].split(":");
        host = address[0];
        port = Integer.parseInt(address[1]);
        if (arguments.length > 2) {
            certificateFile = arguments[2];
        }
        try {
            SCENARIOS.get(arguments[0]).run();
        } catch (Throwable fault) {
            fault.printStackTrace();
            System.exit(1);
        }
        // The client's threads would keep the process alive.
        System.exit(0);
    }

    // ---- what the scenarios are written with ----------------------------------------------------

    /** One connection per client, so that a client is a session: groups and logins are about these. */
    private static IggyTcpClient connected() {
        IggyTcpClient client =
                IggyTcpClient.builder().host(host).port(port).connectionPoolSize(1).build();
        client.connect();
        return client;
    }

    private static IggyTcpClient loggedIn() {
        IggyTcpClient client = connected();
        client.users().login("iggy", "iggy");
        return client;
    }

    private static void equal(Object found, Object expected) {
        if (!Objects.equals(found, expected)) {
            throw new AssertionError("found " + found + ", expected " + expected);
        }
    }

    private static void refused(int code, Runnable attempt) {
        try {
            attempt.run();
        } catch (IggyServerException fault) {
            equal(fault.getRawErrorCode(), code);
            return;
        }
        throw new AssertionError("it was not refused with " + code);
    }

    /** The client itself asks for a login first; nothing of it reaches the server. */
    private static void refusedBeforeLogin(IggyTcpClient client) {
        try {
            client.streams().getStreams();
        } catch (IggyNotConnectedException | IggyServerException fault) {
            return;
        }
        throw new AssertionError("streams were shown to nobody");
    }

    /** A stream with one topic, "events". */
    private static StreamId topicOf(IggyTcpClient client, String stream, long partitions) {
        client.streams().createStream(stream);
        StreamId id = StreamId.of(stream);
        client.topics().createTopic(
                id, partitions, CompressionAlgorithm.None, SERVER_DEFAULT, SERVER_DEFAULT, empty(), "events");
        return id;
    }

    private static final TopicId EVENTS = TopicId.of("events");

    private static List<Message> messages(int first, int count) {
        List<Message> made = new ArrayList<>();
        for (int number = first; number < first + count; number++) {
            made.add(Message.of("message " + number));
        }
        return made;
    }

    private static List<Long> offsetsOf(PolledMessages polled) {
        return polled.messages().stream().map(message -> message.header().offset().longValue()).toList();
    }

    private static List<Long> span(long first, long end) {
        List<Long> numbers = new ArrayList<>();
        for (long number = first; number < end; number++) {
            numbers.add(number);
        }
        return numbers;
    }

    // ---- who is there ---------------------------------------------------------------------------

    private static void login() {
        IggyTcpClient client = connected();
        client.system().ping();
        refusedBeforeLogin(client);
        // On a client of its own: after a refusal this one forgets the credentials it keeps for its
        // pool, and it may do so only when the next login has brought new ones.
        refused(INVALID_CREDENTIALS, () -> connected().users().login("iggy", "wrong"));
        equal(client.users().login("iggy", "iggy").userId(), 0L);
        client.streams().getStreams();
        // The client takes user 0, the root user, for no user at all; its address tells as much.
        Long own = client.system().getMe().clientId();
        equal(client.system().getClient(own).address(), client.system().getMe().address());
        equal(client.system().getClients().size() > 0, true);
        equal(client.system().getStats().processId() > 0, true);
        client.users().logout();
        refusedBeforeLogin(client);

        IggyTcpClient built = IggyTcpClient.builder()
                .host(host).port(port).credentials("iggy", "iggy").buildAndLogin();
        built.streams().getStreams();
        built.close();
    }

    private static void tokens() {
        IggyTcpClient client = loggedIn();
        String token = client.personalAccessTokens()
                .createPersonalAccessToken("java token", BigInteger.valueOf(3_600_000_000L)).token();
        equal(client.personalAccessTokens().getPersonalAccessTokens().get(0).name(), "java token");
        refused(TOKEN_EXISTS,
                () -> client.personalAccessTokens().createPersonalAccessToken("java token", BigInteger.ZERO));
        IggyTcpClient other = connected();
        equal(other.personalAccessTokens().loginWithPersonalAccessToken(token).userId(), 0L);
        other.streams().getStreams();
        client.personalAccessTokens().deletePersonalAccessToken("java token");
        refused(RESOURCE_NOT_FOUND,
                () -> connected().personalAccessTokens().loginWithPersonalAccessToken(token));
    }

    private static void streams() {
        IggyTcpClient client = loggedIn();
        Long id = client.streams().createStream("java streams").id();
        equal(client.streams().getStream(id).orElseThrow().name(), "java streams");
        equal(client.streams().getStream(StreamId.of("java streams")).orElseThrow().id(), id);
        refused(STREAM_EXISTS, () -> client.streams().createStream("java streams"));
        client.streams().updateStream(id, "renamed");
        equal(client.streams().getStreams().stream().anyMatch(one -> one.name().equals("renamed")), true);
        client.streams().deleteStream(id);
        equal(client.streams().getStream(id), empty());
    }

    private static void topics() {
        IggyTcpClient client = loggedIn();
        client.streams().createStream("java topics");
        StreamId stream = StreamId.of("java topics");
        BigInteger hour = BigInteger.valueOf(3_600_000_000L);
        BigInteger size = BigInteger.valueOf(2L << 30);
        Long id = client.topics().createTopic(
                stream, 3L, CompressionAlgorithm.Gzip, hour, size, Optional.of((short) 1), "hourly").id();
        var found = client.topics().getTopic(stream, TopicId.of(id)).orElseThrow();
        equal(found.name(), "hourly");
        equal(found.messageExpiry(), hour);
        equal(found.maxTopicSize(), size);
        equal(found.compressionAlgorithm(), CompressionAlgorithm.Gzip);
        equal(found.partitions().stream().map(partition -> partition.id()).toList(), span(0, 3));

        TopicId hourly = TopicId.of("hourly");
        client.partitions().createPartitions(stream, hourly, 2L);
        equal(client.topics().getTopic(stream, hourly).orElseThrow().partitionsCount(), 5L);
        client.partitions().deletePartitions(stream, hourly, 4L);
        equal(client.topics().getTopic(stream, hourly).orElseThrow().partitionsCount(), 1L);
        client.topics().updateTopic(
                stream, hourly, CompressionAlgorithm.None, SERVER_DEFAULT, SERVER_DEFAULT, empty(), "daily");
        equal(client.topics().getTopics(stream).stream().map(topic -> topic.name()).toList(), List.of("daily"));
        refused(TOPIC_EXISTS, () -> client.topics().createTopic(
                stream, 1L, CompressionAlgorithm.None, SERVER_DEFAULT, SERVER_DEFAULT, empty(), "daily"));
        client.topics().deleteTopic(stream, TopicId.of("daily"));
        equal(client.topics().getTopic(stream, TopicId.of("daily")), empty());
        equal(client.streams().getStream(stream).orElseThrow().topicsCount(), 0L);
    }

    // ---- messages -------------------------------------------------------------------------------

    private static List<Long> countsOf(IggyTcpClient client, StreamId stream) {
        return client.topics().getTopic(stream, EVENTS).orElseThrow().partitions().stream()
                .map(partition -> partition.messagesCount().longValue())
                .toList();
    }

    private static void sending() {
        IggyTcpClient client = loggedIn();
        StreamId stream = topicOf(client, "java sending", 3);
        // In turn: every partition gets one batch, whichever is first.
        for (int turn = 0; turn < 3; turn++) {
            client.messages().sendMessages(stream, EVENTS, Partitioning.balanced(), messages(0, 2));
        }
        equal(countsOf(client, stream), List.of(2L, 2L, 2L));
        client.messages().sendMessages(stream, EVENTS, Partitioning.partitionId(2L), messages(0, 5));
        equal(countsOf(client, stream), List.of(2L, 2L, 7L));
        // One key, one partition.
        for (int number = 0; number < 4; number++) {
            client.messages().sendMessages(
                    stream, EVENTS, Partitioning.messagesKey("customer 17"), messages(number, 1));
        }
        Set<List<Long>> possible =
                Set.of(List.of(6L, 2L, 7L), List.of(2L, 6L, 7L), List.of(2L, 2L, 11L));
        equal(possible.contains(countsOf(client, stream)), true);
        refused(PARTITION_NOT_FOUND, () -> client.messages().sendMessages(
                stream, EVENTS, Partitioning.partitionId(3L), messages(0, 1)));

        Map<HeaderKey, HeaderValue> headers = Map.of(
                HeaderKey.fromString("colour"), HeaderValue.fromString("blue"),
                HeaderKey.fromString("weight"), HeaderValue.fromFloat64(1.5),
                HeaderKey.fromString("count"), HeaderValue.fromUint32(4_000_000_000L));
        client.messages().sendMessages(
                stream, EVENTS, Partitioning.partitionId(0L), List.of(Message.of("decorated", headers)));
        PolledMessages polled = client.messages().pollMessages(
                stream, EVENTS, Optional.of(0L), Consumer.of(0L), PollingStrategy.last(), 1L, false);
        equal(new String(polled.messages().get(0).payload()), "decorated");
        equal(polled.messages().get(0).userHeaders(), headers);
        equal(polled.messages().get(0).header().id().toBigInteger().signum(), 1);
    }

    private static void polling() {
        IggyTcpClient client = loggedIn();
        StreamId stream = topicOf(client, "java polling", 1);
        class Poll {
            PolledMessages all(PollingStrategy strategy, long count, boolean commit) {
                return client.messages().pollMessages(stream, EVENTS, Optional.of(0L),
                        Consumer.of(ConsumerId.of("reader")), strategy, count, commit);
            }

            List<Long> offsets(PollingStrategy strategy, long count, boolean commit) {
                return offsetsOf(all(strategy, count, commit));
            }
        }
        Poll poll = new Poll();
        equal(poll.offsets(PollingStrategy.first(), 10, false), span(0, 0));
        for (int number = 0; number < 10; number += 2) {
            client.messages().sendMessages(stream, EVENTS, Partitioning.partitionId(0L), messages(number, 2));
        }
        PolledMessages all = poll.all(PollingStrategy.first(), 100, false);
        equal(offsetsOf(all), span(0, 10));
        equal(all.currentOffset(), BigInteger.valueOf(9));
        equal(new String(all.messages().get(9).payload()), "message 9");
        equal(poll.offsets(PollingStrategy.first(), 3, false), span(0, 3));
        equal(poll.offsets(PollingStrategy.last(), 3, false), span(7, 10));
        equal(poll.offsets(PollingStrategy.offset(BigInteger.valueOf(4)), 3, false), span(4, 7));
        equal(poll.offsets(PollingStrategy.offset(BigInteger.TEN), 3, false), span(0, 0));
        for (Message message : all.messages()) {
            BigInteger moment = message.header().timestamp();
            List<Long> expected = all.messages().stream()
                    .filter(other -> other.header().timestamp().compareTo(moment) >= 0)
                    .map(other -> other.header().offset().longValue())
                    .toList();
            equal(poll.offsets(PollingStrategy.timestamp(moment), 100, false), expected);
        }
        equal(poll.offsets(PollingStrategy.next(), 4, false), span(0, 4));
        equal(poll.offsets(PollingStrategy.next(), 4, true), span(0, 4));
        equal(poll.offsets(PollingStrategy.next(), 100, true), span(4, 10));
        equal(poll.offsets(PollingStrategy.next(), 4, true), span(0, 0));
    }

    // ---- consuming ------------------------------------------------------------------------------

    private static void offsets() {
        IggyTcpClient client = loggedIn();
        StreamId stream = topicOf(client, "java offsets", 2);
        client.messages().sendMessages(stream, EVENTS, Partitioning.partitionId(1L), messages(0, 10));
        Optional<Long> partition = Optional.of(1L);
        Consumer consumer = Consumer.of(7L);
        equal(client.consumerOffsets().getConsumerOffset(stream, EVENTS, partition, consumer), empty());
        client.consumerOffsets().storeConsumerOffset(stream, EVENTS, partition, consumer, BigInteger.valueOf(5));
        var found = client.consumerOffsets().getConsumerOffset(stream, EVENTS, partition, consumer).orElseThrow();
        equal(found.partitionId(), 1L);
        equal(found.storedOffset(), BigInteger.valueOf(5));
        equal(found.currentOffset(), BigInteger.valueOf(9));
        equal(offsetsOf(client.messages().pollMessages(
                stream, EVENTS, partition, consumer, PollingStrategy.next(), 100L, false)), span(6, 10));
        refused(INVALID_OFFSET, () -> client.consumerOffsets().storeConsumerOffset(
                stream, EVENTS, partition, consumer, BigInteger.TEN));
    }

    private static void groups() {
        IggyTcpClient client = loggedIn();
        StreamId stream = topicOf(client, "java groups", 3);
        ConsumerId group = ConsumerId.of("group");
        Long id = client.consumerGroups().createConsumerGroup(stream, EVENTS, "group").id();
        refused(GROUP_EXISTS, () -> client.consumerGroups().createConsumerGroup(stream, EVENTS, "group"));
        equal(client.consumerGroups().getConsumerGroups(stream, EVENTS).size(), 1);
        for (long partition = 0; partition < 3; partition++) {
            client.messages().sendMessages(stream, EVENTS, Partitioning.partitionId(partition), messages(0, 4));
        }
        refused(NOT_A_MEMBER, () -> pollAsMember(client, stream));

        List<IggyTcpClient> members = List.of(loggedIn(), loggedIn(), loggedIn());
        for (IggyTcpClient member : members) {
            member.consumerGroups().joinConsumerGroup(stream, EVENTS, group);
        }
        var details = client.consumerGroups()
                .getConsumerGroup(stream, EVENTS, ConsumerId.of(id)).orElseThrow();
        Set<Long> owned = new HashSet<>();
        for (ConsumerGroupMember member : details.members()) {
            equal(member.partitionsCount(), 1L);
            owned.addAll(member.partitions());
        }
        equal(owned, Set.of(0L, 1L, 2L));
        Set<Long> seen = new HashSet<>();
        for (IggyTcpClient member : members) {
            PolledMessages polled = pollAsMember(member, stream);
            equal(offsetsOf(polled), span(0, 2));
            seen.add(polled.partitionId());
        }
        equal(seen, owned);

        // One leaves, one is cut off: the third reads the rest of every partition.
        members.get(0).consumerGroups().leaveConsumerGroup(stream, EVENTS, group);
        refused(NOT_A_MEMBER, () -> pollAsMember(members.get(0), stream));
        members.get(1).users().logout();
        members.get(1).close();
        Map<Long, List<Long>> rest = new TreeMap<>();
        for (int turn = 0; turn < 6; turn++) {
            PolledMessages polled = pollAsMember(members.get(2), stream);
            if (!polled.messages().isEmpty()) {
                rest.put(polled.partitionId(), offsetsOf(polled));
            }
        }
        equal(rest, Map.of(0L, span(2, 4), 1L, span(2, 4), 2L, span(2, 4)));
        client.consumerGroups().deleteConsumerGroup(stream, EVENTS, group);
        equal(client.consumerGroups().getConsumerGroup(stream, EVENTS, group), empty());
    }

    private static PolledMessages pollAsMember(IggyTcpClient member, StreamId stream) {
        return member.messages().pollMessages(stream, EVENTS, empty(),
                Consumer.group(ConsumerId.of("group")), PollingStrategy.next(), 2L, true);
    }

    // ---- users ----------------------------------------------------------------------------------

    private static void users() {
        IggyTcpClient client = loggedIn();
        Long id = client.users().createUser("duke", "secret", UserStatus.Active, empty()).id();
        refused(USER_EXISTS, () -> client.users().createUser("duke", "secret", UserStatus.Active, empty()));
        equal(client.users().getUsers().size(), 2);

        IggyTcpClient duke = connected();
        equal(duke.users().login("duke", "secret").userId(), id);
        refused(UNAUTHORIZED, () -> duke.users().getUsers());
        duke.users().changePassword(id, "secret", "hidden");
        refused(INVALID_CREDENTIALS, () -> connected().users().login("duke", "secret"));
        connected().users().login("duke", "hidden");

        client.users().updateUser(UserId.of("duke"), Optional.of("duchess"), Optional.of(UserStatus.Inactive));
        var found = client.users().getUser(id).orElseThrow();
        equal(found.username(), "duchess");
        equal(found.status(), UserStatus.Inactive);
        refused(USER_INACTIVE, () -> connected().users().login("duchess", "hidden"));
        client.users().deleteUser(id);
        equal(client.users().getUser(id), empty());
    }

    private static void permissions() {
        IggyTcpClient client = loggedIn();
        StreamId stream = topicOf(client, "java permissions", 1);
        Long streamNumber = client.streams().getStream(stream).orElseThrow().id();
        Long topicNumber = client.topics().getTopic(stream, EVENTS).orElseThrow().id();
        Permissions reading = permissionsFor(streamNumber, topicNumber, false);
        client.users().createUser("reader-java", "secret", UserStatus.Active, Optional.of(reading));
        UserId user = UserId.of("reader-java");
        equal(client.users().getUser(user).orElseThrow().permissions(), Optional.of(reading));

        IggyTcpClient reader = connected();
        reader.users().login("reader-java", "secret");
        reader.system().getStats();
        equal(reader.streams().getStream(stream).orElseThrow().id(), streamNumber);
        reader.messages().pollMessages(
                stream, EVENTS, Optional.of(0L), Consumer.of(1L), PollingStrategy.first(), 1L, false);
        Runnable send = () -> reader.messages().sendMessages(
                stream, EVENTS, Partitioning.partitionId(0L), messages(0, 1));
        refused(UNAUTHORIZED, send);
        refused(UNAUTHORIZED, () -> reader.streams().createStream("not mine"));
        client.users().updatePermissions(user, Optional.of(permissionsFor(streamNumber, topicNumber, true)));
        send.run();
        client.users().updatePermissions(user, empty());
        refused(UNAUTHORIZED, send);
        client.users().deleteUser(user);
    }

    private static Permissions permissionsFor(Long stream, Long topic, boolean send) {
        return new Permissions(
                new GlobalPermissions(false, true, false, false, false, false, false, false, false, false),
                Map.of(stream, new StreamPermissions(false, true, false, false, false, false,
                        Map.of(topic, new TopicPermissions(false, true, true, send)))));
    }

    // ---- the connection itself ------------------------------------------------------------------

    private static void tls() {
        IggyTcpClient client = IggyTcpClient.builder()
                .host(host).port(port).credentials("iggy", "iggy")
                .enableTls().tlsCertificate(certificateFile).buildAndLogin();
        StreamId stream = topicOf(client, "java tls", 1);
        String large = "x".repeat(2 << 20);
        client.messages().sendMessages(stream, EVENTS, Partitioning.partitionId(0L),
                List.of(Message.of("secret"), Message.of(large)));
        PolledMessages polled = client.messages().pollMessages(
                stream, EVENTS, Optional.of(0L), Consumer.of(0L), PollingStrategy.first(), 10L, true);
        equal(new String(polled.messages().get(0).payload()), "secret");
        equal(new String(polled.messages().get(1).payload()), large);
    }
}
