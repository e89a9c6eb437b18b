//! Requests that are sent again: one of them is executed, the others get its response.

use domain::id::TenantId;
use store::{Answer, IdempotencyKeys, RequestState};

use crate::bench::Bench;
use crate::lab::{Lab, tenant};

const TENANT: TenantId = TenantId::DEFAULT;

fn answer() -> Answer {
    Answer { status: 201, head: "location: /v1/jobs/1".into(), body: vec![0, 255, b'{'] }
}

pub async fn an_answer_is_given_again<B: Bench>(lab: &Lab<B>) {
    let begin =
        async |key: &str, print: &[u8]| lab.store.begin_request(TENANT, key, print).await.unwrap();
    assert_eq!(begin("key", b"create").await, RequestState::New);
    assert_eq!(begin("key", b"create").await, RequestState::InProgress);
    assert_eq!(begin("key", b"delete").await, RequestState::Conflict);
    assert_eq!(begin("other", b"delete").await, RequestState::New);
    lab.store.finish_request(TENANT, "key", Some(&answer())).await.unwrap();
    assert_eq!(begin("key", b"create").await, RequestState::Replay(answer()));
    assert_eq!(begin("key", b"delete").await, RequestState::Conflict);
    assert_eq!(lab.store.begin_request(tenant(9), "key", b"x").await.unwrap(), RequestState::New);
    // The first answer counts.
    lab.store.finish_request(TENANT, "key", Some(&Answer::default())).await.unwrap();
    lab.store.finish_request(TENANT, "key", None).await.unwrap();
    assert_eq!(begin("key", b"create").await, RequestState::Replay(answer()));
    assert_eq!(begin("other", b"delete").await, RequestState::InProgress);
}

pub async fn a_request_that_came_to_nothing_is_made_anew<B: Bench>(lab: &Lab<B>) {
    assert_eq!(lab.store.begin_request(TENANT, "key", b"a").await.unwrap(), RequestState::New);
    lab.store.finish_request(TENANT, "key", None).await.unwrap();
    assert_eq!(lab.store.begin_request(TENANT, "key", b"b").await.unwrap(), RequestState::New);
    assert_eq!(lab.store.forget_requests(9).await.unwrap(), 0, "it is young");
}

pub async fn racing_requests_begin_once<B: Bench>(lab: &Lab<B>) {
    let handle = lab.bench.handle().await;
    for n in 0..10 {
        let key = format!("key {n}");
        let (first, second) = tokio::join!(
            lab.store.begin_request(TENANT, &key, b"a"),
            handle.begin_request(TENANT, &key, b"a")
        );
        let mut begun = [first.unwrap(), second.unwrap()];
        begun.sort_by_key(|begun| *begun != RequestState::New);
        assert_eq!(begun, [RequestState::New, RequestState::InProgress]);
    }
}
