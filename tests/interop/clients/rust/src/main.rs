//! What people do with the published Rust client, each scenario ending where its claim was seen.
//!
//! `scenarios NAME HOST:PORT` exits with 0 when the scenario held, and panics when it did not.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;

use bytes::Bytes;
use iggy::prelude::*;

const EVENTS: &str = "events";

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let address = arguments[2].as_str();
    match arguments[1].as_str() {
        "login" => login(address).await,
        "tokens" => tokens(address).await,
        "streams" => streams(address).await,
        "topics" => topics(address).await,
        "sending" => sending(address).await,
        "polling" => polling(address).await,
        "offsets" => offsets(address).await,
        "groups" => groups(address).await,
        "users" => users(address).await,
        "permissions" => permissions(address).await,
        name => panic!("no scenario is called {name}"),
    }
}

// ---- what the scenarios are written with -------------------------------------------------------

async fn connected(address: &str) -> IggyClient {
    let client = IggyClient::builder()
        .with_tcp()
        .with_server_address(address.to_string())
        .build()
        .unwrap();
    client.connect().await.unwrap();
    client
}

async fn logged_in(address: &str) -> IggyClient {
    let client = connected(address).await;
    client.login_user("iggy", "iggy").await.unwrap();
    client
}

fn named(name: &str) -> Identifier {
    Identifier::named(name).unwrap()
}

fn numbered(number: u32) -> Identifier {
    Identifier::numeric(number).unwrap()
}

/// The attempt must end with this error.
async fn refused<T>(attempt: impl Future<Output = Result<T, IggyError>>, expected: IggyError) {
    match attempt.await {
        Ok(_) => panic!("it was not refused"),
        Err(error) => assert_eq!(error.as_code(), expected.as_code(), "{error}"),
    }
}

/// A stream with one topic, "events".
async fn topic_of(client: &IggyClient, stream: &str, partitions: u32) -> (Identifier, Identifier) {
    client.create_stream(stream).await.unwrap();
    let (stream, plain) = (named(stream), CompressionAlgorithm::None);
    let (never, size) = (IggyExpiry::NeverExpire, MaxTopicSize::ServerDefault);
    client.create_topic(&stream, EVENTS, partitions, plain, None, never, size).await.unwrap();
    (stream, named(EVENTS))
}

fn messages(first: u32, count: u32) -> Vec<IggyMessage> {
    (first..first + count)
        .map(|number| IggyMessage::from(format!("message {number}")))
        .collect()
}

fn offsets_of(polled: &PolledMessages) -> Vec<u64> {
    polled.messages.iter().map(|one| one.header.offset).collect()
}

fn span(first: u64, end: u64) -> Vec<u64> {
    (first..end).collect()
}

// ---- who is there ------------------------------------------------------------------------------

async fn login(address: &str) {
    let client = connected(address).await;
    client.ping().await.unwrap();
    refused(client.login_user("iggy", "wrong"), IggyError::InvalidCredentials).await;
    assert_eq!(client.login_user("iggy", "iggy").await.unwrap().user_id, 0);
    let me = client.get_me().await.unwrap();
    assert_eq!(me.user_id, Some(0));
    assert_eq!(client.get_client(me.client_id).await.unwrap().unwrap().address, me.address);
    assert!(client.get_stats().await.unwrap().process_id > 0);
    assert_eq!(client.get_cluster_metadata().await.unwrap().nodes.len(), 1);
    client.logout_user().await.unwrap();
}

async fn tokens(address: &str) {
    let client = logged_in(address).await;
    let expiry = PersonalAccessTokenExpiry::NeverExpire;
    let raw = client.create_personal_access_token("rust token", expiry).await.unwrap();
    let found = client.get_personal_access_tokens().await.unwrap();
    assert_eq!(found[0].name, "rust token");
    let other = connected(address).await;
    let identity = other.login_with_personal_access_token(&raw.token).await.unwrap();
    assert_eq!(identity.user_id, 0);
    other.get_streams().await.unwrap();
    client.delete_personal_access_token("rust token").await.unwrap();
    let late = connected(address).await;
    refused(
        late.login_with_personal_access_token(&raw.token),
        IggyError::ResourceNotFound(String::new()),
    )
    .await;
}

async fn streams(address: &str) {
    let client = logged_in(address).await;
    let made = client.create_stream("rust streams").await.unwrap();
    let found = client.get_stream(&numbered(made.id)).await.unwrap().unwrap();
    assert_eq!(found.name, "rust streams");
    refused(
        client.create_stream("rust streams"),
        IggyError::StreamNameAlreadyExists(String::new()),
    )
    .await;
    client.update_stream(&numbered(made.id), "rouillé").await.unwrap();
    let all = client.get_streams().await.unwrap();
    assert!(all.iter().any(|stream| stream.name == "rouillé"));
    client.purge_stream(&numbered(made.id)).await.unwrap();
    client.delete_stream(&named("rouillé")).await.unwrap();
    assert!(client.get_stream(&numbered(made.id)).await.unwrap().is_none());
}

async fn topics(address: &str) {
    let client = logged_in(address).await;
    client.create_stream("rust topics").await.unwrap();
    let (stream, topic) = (named("rust topics"), named("hourly"));
    let hour = IggyExpiry::ExpireDuration(IggyDuration::from(3_600_000_000_u64));
    let size = MaxTopicSize::Custom(IggyByteSize::from(2_u64 << 30));
    client
        .create_topic(&stream, "hourly", 3, CompressionAlgorithm::Gzip, Some(1), hour, size)
        .await
        .unwrap();
    let found = client.get_topic(&stream, &topic).await.unwrap().unwrap();
    assert_eq!(found.message_expiry, hour);
    assert_eq!(found.max_topic_size, size);
    assert_eq!(found.compression_algorithm, CompressionAlgorithm::Gzip);
    let partitions: Vec<u32> = found.partitions.iter().map(|one| one.id).collect();
    assert_eq!(partitions, [0, 1, 2]);
    client.create_partitions(&stream, &topic, 2).await.unwrap();
    client.delete_partitions(&stream, &topic, 4).await.unwrap();
    let (never, size) = (IggyExpiry::NeverExpire, MaxTopicSize::ServerDefault);
    client
        .update_topic(&stream, &topic, "for ever", CompressionAlgorithm::None, None, never, size)
        .await
        .unwrap();
    let all = client.get_topics(&stream).await.unwrap();
    assert_eq!((all[0].name.as_str(), all[0].partitions_count), ("for ever", 1));
    assert_eq!(all[0].message_expiry, IggyExpiry::NeverExpire);
    client.delete_topic(&stream, &named("for ever")).await.unwrap();
    assert!(client.get_topic(&stream, &named("for ever")).await.unwrap().is_none());
}

// ---- messages ----------------------------------------------------------------------------------

async fn sending(address: &str) {
    let client = logged_in(address).await;
    let (stream, topic) = topic_of(&client, "rust sending", 3).await;
    let counts = async || -> Vec<u64> {
        let found = client.get_topic(&stream, &topic).await.unwrap().unwrap();
        found.partitions.iter().map(|one| one.messages_count).collect()
    };
    let send = async |partitioning: Partitioning, mut batch: Vec<IggyMessage>| {
        client.send_messages(&stream, &topic, &partitioning, &mut batch).await
    };
    // In turn: every partition gets one batch, whichever is first.
    for _ in 0..3 {
        send(Partitioning::balanced(), messages(0, 2)).await.unwrap();
    }
    assert_eq!(counts().await, [2, 2, 2]);
    send(Partitioning::partition_id(2), messages(0, 5)).await.unwrap();
    assert_eq!(counts().await, [2, 2, 7]);
    // One key, one partition.
    for number in 0..4 {
        let key = Partitioning::messages_key_str("customer 17").unwrap();
        send(key, messages(number, 1)).await.unwrap();
    }
    assert!([[6, 2, 7], [2, 6, 7], [2, 2, 11]].contains(&counts().await.try_into().unwrap()));
    refused(
        send(Partitioning::partition_id(3), messages(0, 1)),
        IggyError::PartitionNotFound(0, numbered(0), numbered(0)),
    )
    .await;

    let headers = BTreeMap::from([
        (HeaderKey::try_from("colour").unwrap(), HeaderValue::try_from("blue").unwrap()),
        (HeaderKey::try_from("weight").unwrap(), HeaderValue::from(1.5_f64)),
    ]);
    let decorated = IggyMessage::builder()
        .id(u128::MAX - 1)
        .payload(Bytes::from("decorated"))
        .user_headers(headers.clone())
        .build()
        .unwrap();
    send(Partitioning::partition_id(0), vec![decorated]).await.unwrap();
    let consumer = Consumer::default();
    let polled = client
        .poll_messages(&stream, &topic, Some(0), &consumer, &PollingStrategy::last(), 1, false)
        .await
        .unwrap();
    assert_eq!(polled.messages[0].payload_as_string().unwrap(), "decorated");
    assert_eq!(polled.messages[0].header.id, u128::MAX - 1);
    assert_eq!(polled.messages[0].user_headers_map().unwrap(), Some(headers));
}

async fn polling(address: &str) {
    let client = logged_in(address).await;
    let (stream, topic) = topic_of(&client, "rust polling", 1).await;
    let consumer = Consumer::new(named("reader"));
    let poll = async |strategy: PollingStrategy, count: u32, commit: bool| {
        client
            .poll_messages(&stream, &topic, Some(0), &consumer, &strategy, count, commit)
            .await
            .unwrap()
    };
    assert_eq!(poll(PollingStrategy::first(), 10, false).await.messages.len(), 0);
    for first in (0..10).step_by(2) {
        client
            .send_messages(&stream, &topic, &Partitioning::partition_id(0), &mut messages(first, 2))
            .await
            .unwrap();
    }
    let all = poll(PollingStrategy::first(), 100, false).await;
    assert_eq!(offsets_of(&all), span(0, 10));
    assert_eq!(all.current_offset, 9);
    assert_eq!(all.messages[9].payload_as_string().unwrap(), "message 9");
    assert_eq!(offsets_of(&poll(PollingStrategy::first(), 3, false).await), span(0, 3));
    assert_eq!(offsets_of(&poll(PollingStrategy::last(), 3, false).await), span(7, 10));
    assert_eq!(offsets_of(&poll(PollingStrategy::offset(4), 3, false).await), span(4, 7));
    assert_eq!(offsets_of(&poll(PollingStrategy::offset(10), 3, false).await), span(0, 0));
    for message in &all.messages {
        let moment = message.header.timestamp;
        let late = all.messages.iter().filter(|other| other.header.timestamp >= moment);
        let expected: Vec<u64> = late.map(|other| other.header.offset).collect();
        let strategy = PollingStrategy::timestamp(IggyTimestamp::from(moment));
        assert_eq!(offsets_of(&poll(strategy, 100, false).await), expected);
    }
    assert_eq!(offsets_of(&poll(PollingStrategy::next(), 4, false).await), span(0, 4));
    assert_eq!(offsets_of(&poll(PollingStrategy::next(), 4, true).await), span(0, 4));
    assert_eq!(offsets_of(&poll(PollingStrategy::next(), 100, true).await), span(4, 10));
    assert_eq!(offsets_of(&poll(PollingStrategy::next(), 4, true).await), span(0, 0));
}

// ---- consuming ---------------------------------------------------------------------------------

async fn offsets(address: &str) {
    let client = logged_in(address).await;
    let (stream, topic) = topic_of(&client, "rust offsets", 2).await;
    client
        .send_messages(&stream, &topic, &Partitioning::partition_id(1), &mut messages(0, 10))
        .await
        .unwrap();
    let consumer = Consumer::new(numbered(7));
    let stored = client.get_consumer_offset(&consumer, &stream, &topic, Some(1)).await.unwrap();
    assert!(stored.is_none());
    client.store_consumer_offset(&consumer, &stream, &topic, Some(1), 5).await.unwrap();
    let stored = client.get_consumer_offset(&consumer, &stream, &topic, Some(1)).await.unwrap();
    let stored = stored.unwrap();
    assert_eq!((stored.partition_id, stored.current_offset, stored.stored_offset), (1, 9, 5));
    refused(
        client.store_consumer_offset(&consumer, &stream, &topic, Some(1), 10),
        IggyError::InvalidOffset(0),
    )
    .await;
    client.delete_consumer_offset(&consumer, &stream, &topic, Some(1)).await.unwrap();
    refused(
        client.delete_consumer_offset(&consumer, &stream, &topic, Some(1)),
        IggyError::ConsumerOffsetNotFound(0),
    )
    .await;
}

async fn groups(address: &str) {
    let client = logged_in(address).await;
    let (stream, topic) = topic_of(&client, "rust groups", 3).await;
    let group = named("group");
    client.create_consumer_group(&stream, &topic, "group").await.unwrap();
    assert_eq!(client.get_consumer_groups(&stream, &topic).await.unwrap().len(), 1);
    for partition in 0..3 {
        let partitioning = Partitioning::partition_id(partition);
        client.send_messages(&stream, &topic, &partitioning, &mut messages(0, 4)).await.unwrap();
    }
    let consumer = Consumer::group(group.clone());
    let poll = async |member: &IggyClient| {
        let strategy = PollingStrategy::next();
        member.poll_messages(&stream, &topic, None, &consumer, &strategy, 2, true).await
    };
    let mut members = Vec::new();
    for _ in 0..3 {
        let member = logged_in(address).await;
        member.join_consumer_group(&stream, &topic, &group).await.unwrap();
        members.push(member);
    }
    let details = client.get_consumer_group(&stream, &topic, &group).await.unwrap().unwrap();
    let owned: BTreeSet<u32> =
        details.members.iter().flat_map(|member| member.partitions.clone()).collect();
    assert!(details.members.iter().all(|member| member.partitions_count == 1));
    assert_eq!(owned, BTreeSet::from([0, 1, 2]));
    let mut seen = BTreeSet::new();
    for member in &members {
        let polled = poll(member).await.unwrap();
        assert_eq!(offsets_of(&polled), span(0, 2));
        seen.insert(polled.partition_id);
    }
    assert_eq!(seen, owned);

    // One leaves, one is cut off: the third reads the rest of every partition.
    members[0].leave_consumer_group(&stream, &topic, &group).await.unwrap();
    assert!(poll(&members[0]).await.is_err());
    members[1].logout_user().await.unwrap();
    members[1].disconnect().await.unwrap();
    let mut rest = BTreeMap::new();
    for _ in 0..6 {
        let polled = poll(&members[2]).await.unwrap();
        if !polled.messages.is_empty() {
            rest.insert(polled.partition_id, offsets_of(&polled));
        }
    }
    assert_eq!(rest, BTreeMap::from([(0, span(2, 4)), (1, span(2, 4)), (2, span(2, 4))]));
    client.delete_consumer_group(&stream, &topic, &group).await.unwrap();
}

// ---- users -------------------------------------------------------------------------------------

async fn users(address: &str) {
    let client = logged_in(address).await;
    let made = client.create_user("ferris", "secret", UserStatus::Active, None).await.unwrap();
    let (id, twin) = (numbered(made.id), UserStatus::Active);
    refused(client.create_user("ferris", "secret", twin, None), IggyError::UserAlreadyExists).await;
    let ferris = connected(address).await;
    assert_eq!(ferris.login_user("ferris", "secret").await.unwrap().user_id, made.id);
    refused(ferris.get_users(), IggyError::Unauthorized).await;
    ferris.change_password(&id, "secret", "hidden").await.unwrap();
    let again = connected(address).await;
    refused(again.login_user("ferris", "secret"), IggyError::InvalidCredentials).await;
    again.login_user("ferris", "hidden").await.unwrap();
    client.update_user(&id, Some("crab"), Some(UserStatus::Inactive)).await.unwrap();
    let found = client.get_user(&id).await.unwrap().unwrap();
    assert_eq!((found.username.as_str(), found.status), ("crab", UserStatus::Inactive));
    let late = connected(address).await;
    refused(late.login_user("crab", "hidden"), IggyError::UserInactive).await;
    client.delete_user(&id).await.unwrap();
    assert!(client.get_user(&id).await.unwrap().is_none());
}

async fn permissions(address: &str) {
    let client = logged_in(address).await;
    let (stream, topic) = topic_of(&client, "rust permissions", 1).await;
    let stream_id = client.get_stream(&stream).await.unwrap().unwrap().id;
    let topic_id = client.get_topic(&stream, &topic).await.unwrap().unwrap().id;
    let allowing = |send_messages: bool| Permissions {
        global: GlobalPermissions { read_servers: true, ..Default::default() },
        streams: Some(BTreeMap::from([(
            stream_id as usize,
            StreamPermissions {
                read_stream: true,
                topics: Some(BTreeMap::from([(
                    topic_id as usize,
                    TopicPermissions {
                        read_topic: true,
                        poll_messages: true,
                        send_messages,
                        ..Default::default()
                    },
                )])),
                ..Default::default()
            },
        )])),
    };
    let (user, active) = (named("reader-rust"), UserStatus::Active);
    client.create_user("reader-rust", "secret", active, Some(allowing(false))).await.unwrap();
    let found = client.get_user(&user).await.unwrap().unwrap();
    assert_eq!(found.permissions, Some(allowing(false)));

    let reader = connected(address).await;
    reader.login_user("reader-rust", "secret").await.unwrap();
    reader.get_stats().await.unwrap();
    assert_eq!(reader.get_stream(&stream).await.unwrap().unwrap().id, stream_id);
    let send = async || {
        let partitioning = Partitioning::partition_id(0);
        reader.send_messages(&stream, &topic, &partitioning, &mut messages(0, 1)).await
    };
    refused(send(), IggyError::Unauthorized).await;
    refused(reader.create_stream("not mine"), IggyError::Unauthorized).await;
    client.update_permissions(&user, Some(allowing(true))).await.unwrap();
    send().await.unwrap();
    client.update_permissions(&user, None).await.unwrap();
    refused(send(), IggyError::Unauthorized).await;
    client.delete_user(&user).await.unwrap();
}
