//! Statistics of processes from the kernel.

use std::fs;

/// Ticks of a second in `/proc`; the same on every common Linux.
const TICKS: f64 = 100.0;

/// Seconds of processor time that a process and its descendants have used.
pub fn cpu_seconds(root: u32) -> f64 {
    let ticks: u64 = family(root).into_iter().filter_map(stat).map(|stat| stat.ticks).sum();
    ticks as f64 / TICKS
}

/// MiB in memory, of a process and its descendants; shared memory is counted once.
pub fn memory_mib(root: u32) -> f64 {
    let kib: u64 = family(root).into_iter().filter_map(pss_kib).sum();
    kib as f64 / 1_024.0
}

/// MiB in memory of one process.
pub fn rss_mib(pid: u32) -> f64 {
    field_kib(pid, "Rss:").unwrap_or(0) as f64 / 1_024.0
}

struct Stat {
    parent: u32,
    ticks: u64,
}

fn stat(pid: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may contain anything; what follows its last parenthesis is numbers.
    let (_, numbers) = text.rsplit_once(") ")?;
    let numbers: Vec<&str> = numbers.split(' ').collect();
    // Its own time and that of children that it has waited for.
    let ticks = numbers.get(11..15)?.iter().filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Some(Stat { parent: numbers.get(1)?.parse().ok()?, ticks })
}

fn family(root: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parents: Vec<(u32, u32)> = pids.filter_map(|pid| Some((pid, stat(pid)?.parent))).collect();
    let mut family = vec![root];
    let mut next = 0;
    while let Some(parent) = family.get(next).copied() {
        family.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    family
}

fn pss_kib(pid: u32) -> Option<u64> {
    field_kib(pid, "Pss:")
}

fn field_kib(pid: u32, field: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}
