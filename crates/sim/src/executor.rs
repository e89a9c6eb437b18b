//! The simulation is the executor: how long an attempt takes and how it ends is drawn from the
//! seed, job by job, so that some jobs are good, some fail, some hang and some kill their node.

use domain::id::JobId;
use domain::run::{AttemptEnd, AttemptResult, ErrorCode, Grant};
use engine::Started;
use jiff::SignedDuration;

use crate::clock::SECOND;
use crate::random::Random;

/// An attempt at work.
#[derive(Clone, Debug)]
pub struct SimAttempt {
    /// The right to it.
    pub grant: Grant,
    /// When it ends, in true time.
    pub ends_at: i64,
    /// How it ends.
    pub end: SimEnd,
}

/// How an attempt ends.
#[derive(Clone, Debug)]
pub enum SimEnd {
    /// It reports this result.
    Result(AttemptResult),
    /// It takes its machine with it.
    Poison,
}

/// The character of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nature {
    Good,
    Slow,
    Flaky,
    Broken,
    Hanging,
    Poison,
}

fn nature(seed: u64, job: JobId) -> Nature {
    let mut random = Random::new(seed ^ job.0.as_u128() as u64);
    match random.weighted(&[40, 15, 20, 10, 8, 4]) {
        0 => Nature::Good,
        1 => Nature::Slow,
        2 => Nature::Flaky,
        3 => Nature::Broken,
        4 => Nature::Hanging,
        _ => Nature::Poison,
    }
}

impl SimAttempt {
    /// Begins an attempt.
    pub fn begin(seed: u64, random: &mut Random, started: &Started, now: i64) -> Self {
        let definition = &started.job.definition;
        let timeout = definition.timeout.as_micros() as i64;
        let nature = nature(seed, started.run.run.job);
        let takes = match nature {
            Nature::Slow => random.between(5 * SECOND, 60 * SECOND),
            Nature::Hanging if random.percent(70) => timeout,
            _ => match random.weighted(&[6, 3, 1]) {
                0 => random.between(1_000, SECOND / 2),
                1 => random.between(SECOND, 12 * SECOND),
                _ => random.between(10 * SECOND, 40 * SECOND),
            },
        };
        let failed = |random: &mut Random| {
            let code = random.pick(&[
                ErrorCode::Exit(1),
                ErrorCode::Exit(2),
                ErrorCode::Http(503),
                ErrorCode::SqlState("40001".into()),
            ]);
            let mut result = AttemptResult::failed(code, "it failed");
            if random.percent(10) {
                result.retry_after = Some(SignedDuration::from_secs(random.between(1, 20)));
            }
            result
        };
        let end = if takes >= timeout {
            let message = "it took too long".into();
            let end = AttemptEnd::Timeout;
            SimEnd::Result(AttemptResult { end, message, ..AttemptResult::completed() })
        } else {
            match nature {
                Nature::Poison if random.percent(80) => SimEnd::Poison,
                Nature::Broken => SimEnd::Result(failed(random)),
                Nature::Flaky if random.percent(60) => SimEnd::Result(failed(random)),
                _ => SimEnd::Result(AttemptResult::completed()),
            }
        };
        SimAttempt { grant: started.run.grant, ends_at: now + takes.min(timeout), end }
    }

    /// From now on nothing goes wrong with it.
    pub fn calm(&mut self, now: i64) {
        self.ends_at = self.ends_at.min(now);
        self.end = SimEnd::Result(AttemptResult::completed());
    }

    /// Asks the attempt to stop. Some attempts complete their work all the same.
    pub fn stop(&mut self, random: &mut Random, end: AttemptEnd, now: i64) {
        self.ends_at = self.ends_at.min(now + random.between(0, 3 * SECOND));
        if random.percent(80) {
            let message = "it was asked to stop".into();
            self.end = SimEnd::Result(AttemptResult { end, message, ..AttemptResult::completed() });
        }
    }
}
