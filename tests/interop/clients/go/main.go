// What people do with the published Go client, each scenario ending where its claim was seen.
//
//	scenarios NAME HOST:PORT [CERTIFICATE_FILE]
//
// It exits with 0 when the scenario held, and says what did not hold otherwise.
package main

import (
	"errors"
	"fmt"
	"os"
	"reflect"

	"github.com/apache/iggy/foreign/go/client"
	"github.com/apache/iggy/foreign/go/client/tcp"
	iggcon "github.com/apache/iggy/foreign/go/contracts"
	ierror "github.com/apache/iggy/foreign/go/errors"
)

var address string

var scenarios = map[string]func(){
	"login":       login,
	"tokens":      tokens,
	"streams":     streams,
	"topics":      topics,
	"sending":     sending,
	"polling":     polling,
	"offsets":     offsets,
	"groups":      groups,
	"users":       users,
	"permissions": permissions,
	"tls":         encrypted,
}

func main() {
	address = os.Args[2]
	scenarios[os.Args[1]]()
}

// ---- what the scenarios are written with --------------------------------------------------------

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func equal(found, expected any) {
	if !reflect.DeepEqual(found, expected) {
		panic(fmt.Sprintf("found %v, expected %v", found, expected))
	}
}

func refused(err, expected error) {
	if !errors.Is(err, expected) {
		panic(fmt.Sprintf("ended with %v, expected %v", err, expected))
	}
}

func named(name string) iggcon.Identifier      { return must(iggcon.NewIdentifier(name)) }
func numbered(number uint32) iggcon.Identifier { return must(iggcon.NewIdentifier(number)) }
func pointer[T any](value T) *T                { return &value }

func connected() iggcon.Client {
	return must(client.NewIggyClient(client.WithTcp(tcp.WithServerAddress(address))))
}

func loggedIn() iggcon.Client {
	own := connected()
	must(own.LoginUser("iggy", "iggy"))
	return own
}

// A stream with one topic, "events".
func topicOf(own iggcon.Client, stream string, partitions uint32) (iggcon.Identifier, iggcon.Identifier) {
	must(own.CreateStream(stream))
	must(own.CreateTopic(named(stream), "events", partitions,
		iggcon.CompressionAlgorithmNone, iggcon.IggyExpiryNeverExpire, 0, nil))
	return named(stream), named("events")
}

func messages(first, count int) []iggcon.IggyMessage {
	made := make([]iggcon.IggyMessage, 0, count)
	for number := first; number < first+count; number++ {
		made = append(made, must(iggcon.NewIggyMessage([]byte(fmt.Sprintf("message %d", number)))))
	}
	return made
}

func offsetsOf(polled *iggcon.PolledMessage) []uint64 {
	found := []uint64{}
	for _, message := range polled.Messages {
		found = append(found, message.Header.Offset)
	}
	return found
}

func payloadsOf(polled *iggcon.PolledMessage) []string {
	found := []string{}
	for _, message := range polled.Messages {
		found = append(found, string(message.Payload))
	}
	return found
}

func span(first, end uint64) []uint64 {
	numbers := []uint64{}
	for number := first; number < end; number++ {
		numbers = append(numbers, number)
	}
	return numbers
}

// ---- who is there -------------------------------------------------------------------------------

func login() {
	own := connected()
	check(own.Ping())
	_, err := own.GetStreams()
	refused(err, ierror.ErrUnauthenticated)
	_, err = own.LoginUser("iggy", "wrong")
	refused(err, ierror.ErrInvalidCredentials)
	equal(must(own.LoginUser("iggy", "iggy")).UserId, uint32(0))
	must(own.GetStreams())
	if must(own.GetStats()).ProcessId <= 0 {
		panic("the server has no process")
	}
	clients := must(own.GetClients())
	details := must(own.GetClient(clients[0].ID))
	equal(details.Address, clients[0].Address)
	equal(len(must(own.GetClusterMetadata()).Nodes), 1)
	check(own.LogoutUser())
	_, err = own.GetStreams()
	refused(err, ierror.ErrUnauthenticated)
	check(own.Close())
}

func tokens() {
	own := loggedIn()
	raw := must(own.CreatePersonalAccessToken("go token", 0))
	found := must(own.GetPersonalAccessTokens())
	equal(len(found), 1)
	equal(found[0].Name, "go token")
	_, err := own.CreatePersonalAccessToken("go token", 0)
	refused(err, ierror.ErrPersonalAccessTokenAlreadyExists)

	other := connected()
	equal(must(other.LoginWithPersonalAccessToken(raw.Token)).UserId, uint32(0))
	must(other.GetStreams())
	check(own.DeletePersonalAccessToken("go token"))
	_, err = connected().LoginWithPersonalAccessToken(raw.Token)
	refused(err, ierror.ErrResourceNotFound)
}

func streams() {
	own := loggedIn()
	made := must(own.CreateStream("go streams"))
	equal(made.Name, "go streams")
	equal(must(own.GetStream(numbered(made.Id))).Name, "go streams")
	equal(must(own.GetStream(named("go streams"))).Id, made.Id)
	_, err := own.CreateStream("go streams")
	refused(err, ierror.ErrStreamNameAlreadyExists)
	check(own.UpdateStream(numbered(made.Id), "gründlich"))
	names := map[string]uint32{}
	for _, stream := range must(own.GetStreams()) {
		names[stream.Name] = stream.Id
	}
	equal(names["gründlich"], made.Id)
	check(own.DeleteStream(named("gründlich")))
	_, err = own.GetStream(numbered(made.Id))
	refused(err, ierror.ErrStreamIdNotFound)
}

func topics() {
	own := loggedIn()
	must(own.CreateStream("go topics"))
	stream := named("go topics")
	made := must(own.CreateTopic(stream, "hourly", 3,
		iggcon.CompressionAlgorithmGzip, iggcon.Hour, 2<<30, pointer(uint8(1))))
	equal(made.Name, "hourly")
	found := must(own.GetTopic(stream, numbered(made.Id)))
	equal(found.PartitionsCount, uint32(3))
	equal(found.MessageExpiry, iggcon.Duration(iggcon.Hour))
	equal(found.MaxTopicSize, uint64(2<<30))
	equal(found.CompressionAlgorithm, uint8(iggcon.CompressionAlgorithmGzip))
	equal([]uint32{found.Partitions[0].Id, found.Partitions[1].Id, found.Partitions[2].Id}, []uint32{0, 1, 2})

	check(own.CreatePartitions(stream, named("hourly"), 2))
	equal(must(own.GetTopic(stream, named("hourly"))).PartitionsCount, uint32(5))
	check(own.DeletePartitions(stream, named("hourly"), 4))
	equal(must(own.GetTopic(stream, named("hourly"))).PartitionsCount, uint32(1))
	check(own.UpdateTopic(stream, named("hourly"), "for ever",
		iggcon.CompressionAlgorithmNone, iggcon.IggyExpiryNeverExpire, 0, nil))
	all := must(own.GetTopics(stream))
	equal(len(all), 1)
	equal(all[0].Name, "for ever")
	equal(all[0].MessageExpiry, iggcon.IggyExpiryNeverExpire)
	_, err := own.CreateTopic(stream, "for ever", 1,
		iggcon.CompressionAlgorithmNone, iggcon.IggyExpiryNeverExpire, 0, nil)
	refused(err, ierror.ErrTopicNameAlreadyExists)
	check(own.DeleteTopic(stream, named("for ever")))
	equal(len(must(own.GetStream(stream)).Topics), 0)
}

// ---- messages -----------------------------------------------------------------------------------

func sending() {
	own := loggedIn()
	stream, topic := topicOf(own, "go sending", 3)
	counts := func() []uint64 {
		found := []uint64{}
		for _, partition := range must(own.GetTopic(stream, topic)).Partitions {
			found = append(found, partition.MessagesCount)
		}
		return found
	}
	// In turn: every partition gets one batch, whichever is first.
	for range 3 {
		check(own.SendMessages(stream, topic, iggcon.None(), messages(0, 2)))
	}
	equal(counts(), []uint64{2, 2, 2})
	check(own.SendMessages(stream, topic, iggcon.PartitionId(2), messages(0, 5)))
	equal(counts(), []uint64{2, 2, 7})
	// One key, one partition.
	key := must(iggcon.EntityIdString("customer 17"))
	for number := range 4 {
		check(own.SendMessages(stream, topic, key, messages(number, 1)))
	}
	grown := 0
	for partition, count := range counts() {
		if count != []uint64{2, 2, 7}[partition] {
			equal(count, []uint64{6, 6, 11}[partition])
			grown++
		}
	}
	equal(grown, 1)
	refused(own.SendMessages(stream, topic, iggcon.PartitionId(3), messages(0, 1)),
		ierror.ErrPartitionNotFound)

	identity := [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	headers := []iggcon.HeaderEntry{{
		Key:   must(iggcon.NewHeaderKeyString("colour")),
		Value: iggcon.HeaderValue{Kind: iggcon.String, Value: []byte("blue")},
	}, {
		Key:   iggcon.NewHeaderKeyInt32(-7),
		Value: iggcon.HeaderValue{Kind: iggcon.Bool, Value: []byte{1}},
	}}
	sent := must(iggcon.NewIggyMessage([]byte("decorated"),
		iggcon.WithID(identity), iggcon.WithUserHeaders(headers)))
	check(own.SendMessages(stream, topic, iggcon.PartitionId(0), []iggcon.IggyMessage{sent}))
	polled := must(own.PollMessages(stream, topic, iggcon.DefaultConsumer(),
		iggcon.LastPollingStrategy(), 1, false, pointer(uint32(0))))
	equal(payloadsOf(polled), []string{"decorated"})
	equal(polled.Messages[0].Header.Id, iggcon.MessageID(identity))
	equal(polled.Messages[0].Header.OriginTimestamp, sent.Header.OriginTimestamp)
	equal(must(iggcon.DeserializeHeaders(polled.Messages[0].UserHeaders)), headers)
}

func polling() {
	own := loggedIn()
	stream, topic := topicOf(own, "go polling", 1)
	consumer := iggcon.NewSingleConsumer(named("reader"))
	poll := func(strategy iggcon.PollingStrategy, count uint32, commit bool) *iggcon.PolledMessage {
		return must(own.PollMessages(stream, topic, consumer, strategy, count, commit, pointer(uint32(0))))
	}
	equal(offsetsOf(poll(iggcon.FirstPollingStrategy(), 10, false)), span(0, 0))
	for number := 0; number < 10; number += 2 {
		check(own.SendMessages(stream, topic, iggcon.PartitionId(0), messages(number, 2)))
	}
	all := poll(iggcon.FirstPollingStrategy(), 100, false)
	equal(offsetsOf(all), span(0, 10))
	equal(all.CurrentOffset, uint64(9))
	equal(payloadsOf(all)[9], "message 9")
	equal(offsetsOf(poll(iggcon.FirstPollingStrategy(), 3, false)), span(0, 3))
	equal(offsetsOf(poll(iggcon.LastPollingStrategy(), 3, false)), span(7, 10))
	equal(offsetsOf(poll(iggcon.OffsetPollingStrategy(4), 3, false)), span(4, 7))
	equal(offsetsOf(poll(iggcon.OffsetPollingStrategy(10), 3, false)), span(0, 0))
	for _, message := range all.Messages {
		expected := []uint64{}
		for _, other := range all.Messages {
			if other.Header.Timestamp >= message.Header.Timestamp {
				expected = append(expected, other.Header.Offset)
			}
		}
		found := poll(iggcon.TimestampPollingStrategy(message.Header.Timestamp), 100, false)
		equal(offsetsOf(found), expected)
	}
	equal(offsetsOf(poll(iggcon.NextPollingStrategy(), 4, false)), span(0, 4))
	equal(offsetsOf(poll(iggcon.NextPollingStrategy(), 4, true)), span(0, 4))
	equal(offsetsOf(poll(iggcon.NextPollingStrategy(), 100, true)), span(4, 10))
	equal(offsetsOf(poll(iggcon.NextPollingStrategy(), 4, true)), span(0, 0))
}

// ---- consuming ----------------------------------------------------------------------------------

func offsets() {
	own := loggedIn()
	stream, topic := topicOf(own, "go offsets", 2)
	check(own.SendMessages(stream, topic, iggcon.PartitionId(1), messages(0, 10)))
	consumer, partition := iggcon.NewSingleConsumer(numbered(7)), pointer(uint32(1))
	if before := must(own.GetConsumerOffset(consumer, stream, topic, partition)); before != nil {
		panic("nothing was stored yet")
	}
	check(own.StoreConsumerOffset(consumer, stream, topic, 5, partition))
	found := must(own.GetConsumerOffset(consumer, stream, topic, partition))
	equal(*found, iggcon.ConsumerOffsetInfo{PartitionId: 1, CurrentOffset: 9, StoredOffset: 5})
	polled := must(own.PollMessages(stream, topic, consumer, iggcon.NextPollingStrategy(), 100, false, partition))
	equal(offsetsOf(polled), span(6, 10))
	refused(own.StoreConsumerOffset(consumer, stream, topic, 10, partition), ierror.ErrInvalidOffset)
	check(own.DeleteConsumerOffset(consumer, stream, topic, partition))
	refused(own.DeleteConsumerOffset(consumer, stream, topic, partition), ierror.ErrConsumerOffsetNotFound)
}

func groups() {
	own := loggedIn()
	stream, topic := topicOf(own, "go groups", 3)
	made := must(own.CreateConsumerGroup(stream, topic, "group"))
	equal(made.Name, "group")
	_, err := own.CreateConsumerGroup(stream, topic, "group")
	refused(err, ierror.ErrConsumerGroupNameAlreadyExists)
	equal(len(must(own.GetConsumerGroups(stream, topic))), 1)
	for partition := range uint32(3) {
		check(own.SendMessages(stream, topic, iggcon.PartitionId(partition), messages(0, 4)))
	}
	group := iggcon.NewGroupConsumer(named("group"))
	poll := func(member iggcon.Client, count uint32) (*iggcon.PolledMessage, error) {
		return member.PollMessages(stream, topic, group, iggcon.NextPollingStrategy(), count, true, nil)
	}
	_, err = poll(own, 1)
	refused(err, ierror.ErrConsumerGroupMemberNotFound)

	members := []iggcon.Client{loggedIn(), loggedIn(), loggedIn()}
	for _, member := range members {
		check(member.JoinConsumerGroup(stream, topic, named("group")))
	}
	details := must(own.GetConsumerGroup(stream, topic, numbered(made.Id)))
	equal(details.MembersCount, uint32(3))
	owned := map[uint32]bool{}
	for _, member := range details.Members {
		equal(member.PartitionsCount, uint32(1))
		owned[member.Partitions[0]] = true
	}
	equal(len(owned), 3)
	seen := map[uint32]bool{}
	for _, member := range members {
		polled := must(poll(member, 2))
		equal(offsetsOf(polled), span(0, 2))
		seen[polled.PartitionId] = true
	}
	equal(len(seen), 3)

	// One leaves, one is cut off: the third reads the rest of every partition.
	check(members[0].LeaveConsumerGroup(stream, topic, named("group")))
	_, err = poll(members[0], 1)
	refused(err, ierror.ErrConsumerGroupMemberNotFound)
	check(members[1].LogoutUser())
	check(members[1].Close())
	rest := map[uint32][]uint64{}
	for range 6 {
		if polled := must(poll(members[2], 2)); len(polled.Messages) > 0 {
			rest[polled.PartitionId] = offsetsOf(polled)
		}
	}
	equal(rest, map[uint32][]uint64{0: {2, 3}, 1: {2, 3}, 2: {2, 3}})
	check(own.DeleteConsumerGroup(stream, topic, named("group")))
	equal(len(must(own.GetConsumerGroups(stream, topic))), 0)
}

// ---- users --------------------------------------------------------------------------------------

func users() {
	own := loggedIn()
	made := must(own.CreateUser("gopher", "secret", iggcon.Active, nil))
	equal(made.Username, "gopher")
	_, err := own.CreateUser("gopher", "secret", iggcon.Active, nil)
	refused(err, ierror.ErrUserAlreadyExists)
	equal(len(must(own.GetUsers())), 2)

	gopher := connected()
	equal(must(gopher.LoginUser("gopher", "secret")).UserId, made.Id)
	_, err = gopher.GetUsers()
	refused(err, ierror.ErrUnauthorized)
	check(gopher.ChangePassword(numbered(made.Id), "secret", "hidden"))
	_, err = connected().LoginUser("gopher", "secret")
	refused(err, ierror.ErrInvalidCredentials)
	must(connected().LoginUser("gopher", "hidden"))

	check(own.UpdateUser(named("gopher"), pointer("marmot"), pointer(iggcon.Inactive)))
	found := must(own.GetUser(numbered(made.Id)))
	equal(found.Username, "marmot")
	equal(found.Status, iggcon.Inactive)
	_, err = connected().LoginUser("marmot", "hidden")
	refused(err, ierror.ErrUserInactive)
	check(own.DeleteUser(named("marmot")))
	equal(len(must(own.GetUsers())), 1)
}

func permissions() {
	own := loggedIn()
	stream, topic := topicOf(own, "go permissions", 1)
	streamID := must(own.GetStream(stream)).Id
	topicID := must(own.GetTopic(stream, topic)).Id
	allowed := &iggcon.Permissions{
		Global: iggcon.GlobalPermissions{ReadServers: true},
		Streams: map[int]*iggcon.StreamPermissions{
			int(streamID): {
				ReadStream: true,
				Topics: map[int]*iggcon.TopicPermissions{
					int(topicID): {ReadTopic: true, PollMessages: true},
				},
			},
		},
	}
	must(own.CreateUser("reader-go", "secret", iggcon.Active, allowed))
	equal(must(own.GetUser(named("reader-go"))).Permissions, allowed)

	reader := connected()
	must(reader.LoginUser("reader-go", "secret"))
	must(reader.GetStats())
	equal(must(reader.GetStream(stream)).Id, streamID)
	must(reader.PollMessages(stream, topic, iggcon.DefaultConsumer(),
		iggcon.FirstPollingStrategy(), 1, false, pointer(uint32(0))))
	refused(reader.SendMessages(stream, topic, iggcon.PartitionId(0), messages(0, 1)), ierror.ErrUnauthorized)
	_, err := reader.CreateStream("not mine")
	refused(err, ierror.ErrUnauthorized)

	allowed.Streams[int(streamID)].Topics[int(topicID)].SendMessages = true
	check(own.UpdatePermissions(named("reader-go"), allowed))
	check(reader.SendMessages(stream, topic, iggcon.PartitionId(0), messages(0, 1)))
	check(own.UpdatePermissions(named("reader-go"), nil))
	refused(reader.SendMessages(stream, topic, iggcon.PartitionId(0), messages(0, 1)), ierror.ErrUnauthorized)
	check(own.DeleteUser(named("reader-go")))
}

// ---- the connection itself ----------------------------------------------------------------------

func encrypted() {
	own := must(client.NewIggyClient(client.WithTcp(
		tcp.WithServerAddress(address),
		tcp.WithTLS(tcp.WithTLSCAFile(os.Args[3]), tcp.WithTLSDomain("localhost")),
	)))
	must(own.LoginUser("iggy", "iggy"))
	stream, topic := topicOf(own, "go tls", 1)
	large := must(iggcon.NewIggyMessage(make([]byte, 2<<20)))
	check(own.SendMessages(stream, topic, iggcon.PartitionId(0), append(messages(0, 3), large)))
	polled := must(own.PollMessages(stream, topic, iggcon.DefaultConsumer(),
		iggcon.FirstPollingStrategy(), 10, true, pointer(uint32(0))))
	equal(payloadsOf(polled)[:3], []string{"message 0", "message 1", "message 2"})
	equal(polled.Messages[3].Payload, large.Payload)
}
