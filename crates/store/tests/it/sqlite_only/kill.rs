//! kill -9 at any moment: nothing that was answered is lost, and no fence comes twice.

use super::child::{self, Heard};

const SEED: u64 = 0x2545_f491_4f6c_dd1d;

/// Moments of death, as numbers of answers. A seed decides them.
fn moments(seed: u64) -> impl Iterator<Item = usize> {
    // The generator stands still at zero.
    let mut state = seed | 1;
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
    let test = testbed::this_test!("what_was_answered_survives_kill_9");
    for seed in test.seeds(&[SEED], 1) {
        let lives = if seed.is_fresh { 8 } else { 20 };
        let heard = live_and_die(moments(seed.value).take(lives)).await;
        eprintln!("{} runs were answered, {} ends", heard.submitted.len(), heard.ended.len());
        // A fresh seed may draw early deaths only.
        let worked = heard.submitted.len() > 1_000 && heard.ended.len() > 100;
        assert!(worked || seed.value != SEED, "the children did work");
        assert_eq!(heard.refused, 0);
    }
}

/// Lets children work on one file, each until it has given so many answers.
async fn live_and_die(moments: impl Iterator<Item = usize>) -> Heard {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("punctual.db");
    let mut heard = Heard::default();
    for (life, answers) in moments.enumerate() {
        let life = life as u64 + 1;
        let test = "sqlite_only::kill::what_was_answered_survives_kill_9";
        let mut process = child::start(&[], test, &file, life);
        heard.listen(&mut process, life, Some(answers));
        if file.exists() {
            heard.check(&file).await;
        }
    }
    heard
}
