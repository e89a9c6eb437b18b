//! kill -9 at any moment: nothing that was answered is lost, and no fence comes twice.

use super::child::{self, Heard};

/// Moments of death, as numbers of answers; fixed, so that a failure can be repeated.
fn moments() -> impl Iterator<Item = usize> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % 300) as usize
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_answered_survives_kill_9() {
    if let Some((file, life)) = child::order() {
        return child::work(&file, life, u64::MAX >> 32).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("punctual.db");
    let mut heard = Heard::default();
    for (life, answers) in moments().take(20).enumerate() {
        let life = life as u64 + 1;
        let test = "sqlite_only::kill::what_was_answered_survives_kill_9";
        let mut process = child::start(&[], test, &file, life);
        heard.listen(&mut process, life, Some(answers));
        if file.exists() {
            heard.check(&file).await;
        }
    }
    eprintln!("{} runs were answered, {} ends", heard.submitted.len(), heard.ended.len());
    assert!(heard.submitted.len() > 1_000 && heard.ended.len() > 100, "the children did work");
    assert_eq!(heard.refused, 0);
}
