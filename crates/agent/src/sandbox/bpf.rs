//! Filters of system calls as programs for the kernel.
//!
//! When a filter is put in force, the kernel tries it with every system call to learn which ones
//! are always allowed. A list of a hundred comparisons makes that take longer than starting the
//! command. So the numbers of the calls are looked up by bisection:
//!
//! ```text
//!            nr >= 101 ?
//!            /        \
//!      nr >= 59 ?    nr >= 165 ?
//!       /     \        /    \
//!     allow  …        …    refuse
//! ```

use std::collections::BTreeMap;

use seccompiler::sock_filter;

/// The rule for a system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SyscallRule {
    Allow,
    /// It fails with this error.
    Fail(i32),
    /// It fails with this error if all conditions of one of the lists hold.
    FailIf(i32, Vec<Vec<ArgumentCondition>>),
}

/// A condition for the lower half of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArgumentCondition {
    /// It is this number.
    Is { argument: u8, value: u32 },
    /// It has one of these bits.
    Has { argument: u8, bits: u32 },
    /// It is this number or a greater one.
    AtLeast { argument: u8, value: u32 },
    /// It is a smaller number.
    Below { argument: u8, value: u32 },
}

/// The instructions that are needed: load a word of the call's description, compare it, jump,
/// return.
const LOAD: u16 = 0x20;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_AT_LEAST: u16 = 0x35;
const JUMP_IF_BITS: u16 = 0x45;
const RETURN: u16 = 0x06;

/// Return values of a filter.
const RETURN_ALLOW: u32 = 0x7fff_0000;
const RETURN_ERROR: u32 = 0x0005_0000;
const RETURN_KILL: u32 = 0x8000_0000;

/// Where things are in the description of a call.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;

/// The filter of these calls for a processor: every other call is allowed, up to the number from
/// which another verdict holds. Calls for another processor, such as those of 32-bit programs, end
/// the process; their numbers mean something else. None if it is too long to be a program.
pub(super) fn program(
    architecture: u32,
    verdicts: &BTreeMap<u32, SyscallRule>,
    last: Option<(u32, SyscallRule)>,
) -> Option<Vec<sock_filter>> {
    let ranges = ranges(verdicts, last);
    let mut tree = Vec::new();
    let root = grow(&ranges, &mut tree);
    // The answers follow the comparisons, each kind of them once.
    let mut program = vec![
        code(LOAD, ARCHITECTURE),
        jump(JUMP_IF_EQUAL, architecture, 1, 0),
        code(RETURN, RETURN_KILL),
        code(LOAD, NUMBER),
    ];
    let begin = program.len();
    let mut places = BTreeMap::new();
    let mut end = begin + tree.len();
    let mut answers = Vec::new();
    for (at, (_, verdict)) in ranges.iter().enumerate() {
        let same = ranges[..at].iter().position(|(_, other)| other == verdict);
        let place = same.and_then(|same| places.get(&same).copied()).unwrap_or(end);
        places.insert(at, place);
        if place == end {
            let answer = answer(verdict);
            end += answer.len();
            answers.extend(answer);
        }
    }
    let place = |target: &JumpTarget| match target {
        JumpTarget::Comparison(at) => Some(begin + at),
        JumpTarget::Range(at) => places.get(at).copied(),
    };
    if place(&root)? != begin {
        // Nothing is compared: the only answer follows.
        program.extend(answers);
        return Some(program);
    }
    for comparison in &tree {
        let next = program.len() + 1;
        let distance = |target| u8::try_from(place(target)?.checked_sub(next)?).ok();
        let (high, low) = (distance(&comparison.high)?, distance(&comparison.low)?);
        program.push(jump(JUMP_IF_AT_LEAST, comparison.number, high, low));
    }
    program.extend(answers);
    Some(program)
}

/// Where each verdict begins to hold, in the order of the numbers.
fn ranges(
    verdicts: &BTreeMap<u32, SyscallRule>,
    last: Option<(u32, SyscallRule)>,
) -> Vec<(u32, SyscallRule)> {
    let mut ranges = vec![(0, SyscallRule::Allow)];
    let mut push = |from: u32, verdict: SyscallRule| match ranges.last_mut() {
        Some((begin, other)) if *begin == from => *other = verdict,
        Some((_, other)) if *other == verdict => {}
        _ => ranges.push((from, verdict)),
    };
    for (number, verdict) in verdicts {
        push(*number, verdict.clone());
        push(number + 1, SyscallRule::Allow);
    }
    if let Some((from, verdict)) = last {
        push(from, verdict);
    }
    ranges
}

/// Where a comparison leads.
#[derive(Clone, Copy)]
enum JumpTarget {
    Comparison(usize),
    Range(usize),
}

/// A comparison of the call's number.
struct Comparison {
    number: u32,
    low: JumpTarget,
    high: JumpTarget,
}

/// Adds the comparisons that find a range, the first one first.
fn grow(ranges: &[(u32, SyscallRule)], tree: &mut Vec<Comparison>) -> JumpTarget {
    fn part(ranges: &[(u32, SyscallRule)], first: usize, tree: &mut Vec<Comparison>) -> JumpTarget {
        let (low, high) = ranges.split_at(ranges.len() / 2);
        let (false, Some((number, _))) = (low.is_empty(), high.first()) else {
            return JumpTarget::Range(first);
        };
        let at = tree.len();
        let unknown = JumpTarget::Range(first);
        tree.push(Comparison { number: *number, low: unknown, high: unknown });
        tree[at].low = part(low, first, tree);
        tree[at].high = part(high, first + low.len(), tree);
        JumpTarget::Comparison(at)
    }
    part(ranges, 0, tree)
}

fn answer(verdict: &SyscallRule) -> Vec<sock_filter> {
    let fail = |error: i32| code(RETURN, RETURN_ERROR | (error.unsigned_abs() & 0xffff));
    match verdict {
        SyscallRule::Allow => vec![code(RETURN, RETURN_ALLOW)],
        SyscallRule::Fail(error) => vec![fail(*error)],
        SyscallRule::FailIf(error, lists) => {
            let mut program = Vec::new();
            for list in lists {
                for (at, condition) in list.iter().enumerate() {
                    let (argument, instruction, value) = match *condition {
                        ArgumentCondition::Is { argument, value } => {
                            (argument, JUMP_IF_EQUAL, value)
                        }
                        ArgumentCondition::Has { argument, bits } => (argument, JUMP_IF_BITS, bits),
                        ArgumentCondition::AtLeast { argument, value }
                        | ArgumentCondition::Below { argument, value } => {
                            (argument, JUMP_IF_AT_LEAST, value)
                        }
                    };
                    // A condition that does not hold jumps behind the rest of its list. Lists are
                    // short.
                    let rest = u8::try_from((list.len() - at - 1) * 2 + 1).unwrap_or(u8::MAX);
                    program.push(code(LOAD, ARGUMENTS + 8 * u32::from(argument)));
                    program.push(match condition {
                        ArgumentCondition::Below { .. } => jump(instruction, value, rest, 0),
                        _ => jump(instruction, value, 0, rest),
                    });
                }
                program.push(fail(*error));
            }
            program.push(code(RETURN, RETURN_ALLOW));
            program
        }
    }
}

fn code(code: u16, k: u32) -> sock_filter {
    sock_filter { code, jt: 0, jf: 0, k }
}

fn jump(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: u32 = 0xc000_003e;

    /// Interprets the filter as the kernel would.
    fn run(program: &[sock_filter], architecture: u32, number: u32, arguments: [u64; 6]) -> u32 {
        let (mut at, mut word, mut steps) = (0, 0, 0);
        loop {
            let step = &program[at];
            at += 1;
            steps += 1;
            assert!(steps < 20, "the search takes too many steps");
            let holds = match step.code {
                LOAD => {
                    word = match step.k {
                        NUMBER => number,
                        ARCHITECTURE => architecture,
                        offset => arguments[(offset - ARGUMENTS) as usize / 8] as u32,
                    };
                    continue;
                }
                RETURN => return step.k,
                JUMP_IF_EQUAL => word == step.k,
                JUMP_IF_AT_LEAST => word >= step.k,
                JUMP_IF_BITS => word & step.k != 0,
                other => panic!("{other:#x}"),
            };
            at += usize::from(if holds { step.jt } else { step.jf });
        }
    }

    #[test]
    fn every_call_gets_its_verdict() {
        let mut verdicts: BTreeMap<u32, SyscallRule> =
            (0..90).filter(|n| n % 3 == 0).map(|n| (n * 5, SyscallRule::Fail(1))).collect();
        verdicts.insert(10, SyscallRule::Fail(38));
        let either = vec![
            vec![ArgumentCondition::Has { argument: 2, bits: 0o6000 }],
            vec![
                ArgumentCondition::Has { argument: 1, bits: 0x40 },
                ArgumentCondition::Is { argument: 0, value: 7 },
            ],
        ];
        verdicts.insert(500, SyscallRule::FailIf(13, either));
        let between = vec![
            vec![
                ArgumentCondition::AtLeast { argument: 0, value: 3 },
                ArgumentCondition::Below { argument: 0, value: 10 },
            ],
            vec![ArgumentCondition::AtLeast { argument: 0, value: 17 }],
        ];
        verdicts.insert(502, SyscallRule::FailIf(1, between));
        let program = program(HERE, &verdicts, Some((0x4000_0000, SyscallRule::Fail(38)))).unwrap();
        for number in (0..1000).chain([0x3fff_ffff]) {
            let expected = match verdicts.get(&number) {
                Some(SyscallRule::Fail(error)) => RETURN_ERROR | *error as u32,
                _ => RETURN_ALLOW,
            };
            assert_eq!(run(&program, HERE, number, [0; 6]), expected, "{number}");
        }
        for number in [0x4000_0000, 0x4000_0001, u32::MAX] {
            assert_eq!(run(&program, HERE, number, [0; 6]), RETURN_ERROR | 38);
        }
        assert_eq!(run(&program, 0x4000_0003, 1, [0; 6]), RETURN_KILL);
        for number in (0..20).chain([u64::from(u32::MAX)]) {
            let is_refused = (3..10).contains(&number) || number >= 17;
            let expected = if is_refused { RETURN_ERROR | 1 } else { RETURN_ALLOW };
            assert_eq!(run(&program, HERE, 502, [number, 0, 0, 0, 0, 0]), expected, "{number}");
        }
        for (arguments, is_refused) in [
            ([0, 0, 0o4755, 0, 0, 0], true),
            ([0, 0, 0o2000, 0, 0, 0], true),
            ([0, 0, 0o755, 0, 0, 0], false),
            ([7, 0x41, 0, 0, 0, 0], true),
            ([8, 0x41, 0, 0, 0, 0], false),
            ([7, 0x01, 0, 0, 0, 0], false),
            // The upper half is no part of an int.
            ([7 | 1 << 40, 0x40, 0, 0, 0, 0], true),
        ] {
            let expected = if is_refused { RETURN_ERROR | 13 } else { RETURN_ALLOW };
            assert_eq!(run(&program, HERE, 500, arguments), expected, "{arguments:?}");
        }
    }
    #[test]
    fn a_filter_without_verdicts_allows_everything_and_a_long_one_is_none() {
        let empty = program(HERE, &BTreeMap::new(), None).unwrap();
        assert_eq!(run(&empty, HERE, 7, [0; 6]), RETURN_ALLOW);
        assert_eq!(run(&empty, 1, 7, [0; 6]), RETURN_KILL);
        let many = (0..2000).step_by(2).map(|number| (number, SyscallRule::Fail(1))).collect();
        assert!(program(HERE, &many, None).is_none());
    }
}
