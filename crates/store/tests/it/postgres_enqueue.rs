//! `punctual.enqueue`: messages that are sent in the transaction of another program.

use domain::id::TenantId;
use domain::queue::{MessageBody, QueueSettings};
use store::{LeaseRequest, Messages, Store};
use tokio_postgres::{Client, NoTls};

use crate::bench::Bench;
use crate::lab::{Lab, minutes};
use crate::postgres_bench::PostgresBench;

struct World {
    lab: Lab<PostgresBench>,
    admin: Client,
    app: Client,
    queue: domain::job::Job,
    role: String,
}

/// A queue, and a program that is logged in as a role of its own.
async fn world(settings: QueueSettings) -> World {
    let bench = PostgresBench::open().await;
    let (store, admin, url) = (bench.handle().await, bench.connect().await, bench.url());
    let lab = Lab::new(bench, store);
    let mut queue = lab.draft("mail").await;
    queue.definition.queue = Some(settings);
    lab.create(&queue).await;
    let tenant = TenantId::DEFAULT.0;
    for (id, kind, of, name) in
        [(tenant, 1_i16, uuid::Uuid::nil(), "default"), (lab.id(), 2, tenant, "sender")]
    {
        let sql = "INSERT INTO punctual.identities (id, kind, tenant_id, name, body, version, created_at, updated_at)
                   VALUES ($1, $2, $3, $4, '{}', 1, 0, 0) ON CONFLICT DO NOTHING";
        admin.execute(sql, &[&id, &kind, &of, &name]).await.unwrap();
    }
    // Roles belong to the server, and the name of the database is no other test's.
    let database = admin.query_one("SELECT current_database()::text", &[]).await.unwrap();
    let role = format!("app_{}", database.get::<_, String>(0));
    admin.batch_execute(&format!("CREATE ROLE {role} LOGIN PASSWORD 'x'")).await.unwrap();
    let mut config: tokio_postgres::Config = url.parse().unwrap();
    config.user(&role).password("x");
    let (app, connection) = config.connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    World { lab, admin, app, queue, role }
}

impl World {
    async fn allow(&self) {
        let sql = "SELECT punctual.allow_enqueue($1::text::name, 'default', 'sender', 'mail')";
        self.admin.execute(sql, &[&self.role]).await.unwrap();
    }

    async fn lease(&self) -> Vec<(uuid::Uuid, MessageBody, u8)> {
        let request =
            LeaseRequest::new(self.queue.id, domain::id::NodeId(self.lab.id()), 10, minutes(5));
        let leased = self.lab.store.lease_messages(&request).await.unwrap().messages;
        let read = |it: &store::LeasedMessage| {
            let body = MessageBody::from_parameters(it.parameters.as_deref().unwrap()).unwrap();
            (it.id.0, body, it.priority)
        };
        leased.iter().map(read).collect()
    }
}

fn message(error: &tokio_postgres::Error) -> (String, String) {
    let error = error.as_db_error().unwrap();
    (error.code().code().to_owned(), error.message().to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_is_there_when_the_caller_commits() {
    let mut world = world(QueueSettings::default()).await;
    world.allow().await;
    let sent = "SELECT punctual.enqueue('mail', '{\"to\": \"ann\"}', workspace => 'acme', priority => 7, headers => '{\"trace\": \"1\"}')";
    let rolled_back = world.app.transaction().await.unwrap();
    rolled_back.query_one(sent, &[]).await.unwrap();
    rolled_back.rollback().await.unwrap();
    let open = world.app.transaction().await.unwrap();
    let id: uuid::Uuid = open.query_one(sent, &[]).await.unwrap().get(0);
    // The transaction has not ended.
    let request =
        LeaseRequest::new(world.queue.id, domain::id::NodeId(world.lab.id()), 10, minutes(5));
    assert_eq!(world.lab.store.lease_messages(&request).await.unwrap().messages, []);
    open.commit().await.unwrap();
    let leased = world.lease().await;
    assert_eq!(leased.len(), 1, "only what was committed: {leased:?}");
    let (leased_id, body, priority) = &leased[0];
    assert_eq!((*leased_id, *priority, body.workspace.as_str()), (id, 7, "acme"));
    assert_eq!(
        (body.payload.value()["to"].as_str(), body.headers["trace"].as_str()),
        (Some("ann"), "1")
    );
    let run = world.lab.store.run(domain::id::RunId(id)).await.unwrap().unwrap();
    assert_eq!((run.job, run.requested_by.is_some()), (world.queue.id, true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_sends_to_named_queues_only() {
    let world = world(QueueSettings::default()).await;
    let send = "SELECT punctual.enqueue('mail', '1')";
    let refused = world.app.query_one(send, &[]).await.unwrap_err();
    assert_eq!(message(&refused).0, "42501", "{refused}");
    world.allow().await;
    world.app.query_one(send, &[]).await.unwrap();
    let other =
        world.app.query_one("SELECT punctual.enqueue('other', '1')", &[]).await.unwrap_err();
    assert_eq!(
        message(&other),
        ("42501".to_owned(), "permission denied for queue \"other\"".to_owned())
    );
    // It reads nothing, and gives no rights.
    let read = world.app.query("SELECT * FROM punctual.messages", &[]).await.unwrap_err();
    assert_eq!(message(&read).0, "42501");
    let grant = "SELECT punctual.allow_enqueue(current_user::name, 'default', 'sender', 'mail')";
    assert_eq!(message(&world.app.query(grant, &[]).await.unwrap_err()).0, "42501");
    let unknown = "SELECT punctual.allow_enqueue('postgres', 'default', 'sender', 'none')";
    let unknown = message(&world.admin.query(unknown, &[]).await.unwrap_err());
    assert!(unknown.1.contains("none"), "{unknown:?}");
    let take = "SELECT punctual.disallow_enqueue($1::text::name, 'mail')";
    let row = world.admin.query_one(take, &[&world.role]).await.unwrap();
    assert!(row.get::<_, bool>(0));
    assert_eq!(message(&world.app.query_one(send, &[]).await.unwrap_err()).0, "42501");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_limits_and_delays_hold() {
    let settings = QueueSettings {
        max_depth: Some(3),
        priority_range: Some((2, 8)),
        ..QueueSettings::default()
    };
    let world = world(settings).await;
    world.allow().await;
    let id = async |sql: &str| {
        world.app.query_one(sql, &[]).await.map(|row| row.get::<_, uuid::Uuid>(0))
    };
    let keyed = "SELECT punctual.enqueue('mail', '1', deduplication_key => 'k')";
    assert_eq!(id(keyed).await.unwrap(), id(keyed).await.unwrap());
    let ordered = "SELECT punctual.enqueue('mail', '2', ordering_key => 'o')";
    id(ordered).await.unwrap();
    let later = "SELECT punctual.enqueue('mail', '3', process_after => now() + interval '1 hour')";
    id(later).await.unwrap();
    let full = message(&id(ordered).await.unwrap_err());
    assert!(full.1.contains("is full"), "{full:?}");
    let high = "SELECT punctual.enqueue('mail', '4', priority => 9)";
    assert_eq!(message(&id(high).await.unwrap_err()).0, "22003");
    let depth = world.lab.store.queue_depths(&[world.queue.id]).await.unwrap().remove(0);
    assert_eq!((depth.ready, depth.delayed), (2, 1));
}
