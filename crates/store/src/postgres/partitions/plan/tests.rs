use super::*;

/// Noon of a day.
fn noon(day: i64) -> Timestamp {
    Timestamp::from_millisecond(day * DAY + DAY / 2).unwrap()
}

/// Partitions that follow each other: their first days and sizes, and whether they are pruned row
/// by row. The last one has no end.
fn partitions(of: &[(i64, i64, bool)]) -> Vec<Range> {
    let mut ranges: Vec<Range> = of
        .iter()
        .enumerate()
        .map(|(number, (day, bytes, row_by_row))| Range {
            number: i32::try_from(number).unwrap(),
            first: bound(day * DAY),
            until: Range::LAST,
            row_by_row: *row_by_row,
            bytes: *bytes,
            rows: 0,
        })
        .collect();
    for at in 1..ranges.len() {
        ranges[at - 1].until = ranges[at].first;
    }
    ranges
}

fn days(ids: &[Uuid]) -> Vec<i64> {
    ids.iter().map(|id| milliseconds(*id) / DAY).collect()
}

#[test]
fn partitions_are_made_ahead() {
    let (day, week) = (DAY, 7 * DAY);
    // 20,006 is the beginning of a week of seven days since 1970.
    for (what, ranges, today, length, expected) in [
        ("the first start", vec![(0, 0, true)], 20_007, week, Some((0, vec![20_006, 20_013]))),
        (
            "the first start at the end of a week",
            vec![(0, 0, true)],
            20_012,
            week,
            Some((0, vec![20_006, 20_013, 20_020])),
        ),
        (
            "nothing to do",
            vec![(0, 0, true), (20_006, 99, false), (20_013, 0, false)],
            20_007,
            week,
            None,
        ),
        (
            "the next week",
            vec![(0, 0, true), (20_006, 99, false), (20_013, 0, false)],
            20_012,
            week,
            Some((2, vec![20_020])),
        ),
        (
            "days instead of weeks: what is there stays",
            vec![(0, 0, true), (20_006, CUT_BYTES_MAX + 1, false), (20_013, 0, false)],
            20_007,
            day,
            None,
        ),
        (
            "weeks instead of days",
            vec![(0, 0, true), (20_007, 9, false), (20_008, 0, false), (20_009, 0, false)],
            20_008,
            week,
            Some((3, vec![20_013])),
        ),
        (
            "no node for a year",
            vec![(0, 0, true), (20_006, 99, false), (20_013, 0, false)],
            20_372,
            week,
            Some((2, vec![20_370, 20_377])),
        ),
        (
            "the clock was years ahead",
            vec![(0, 0, true), (20_006, 9, false), (24_003, 0, false), (24_010, 0, false)],
            20_007,
            week,
            Some((1, vec![20_013])),
        ),
        (
            "the clock is years behind",
            vec![(0, 0, true), (20_006, 9, false), (20_013, 0, false)],
            10_004,
            week,
            Some((0, vec![10_003, 10_010])),
        ),
        ("too large", vec![(0, CUT_BYTES_MAX + 1, true)], 20_007, week, None),
    ] {
        let ranges = partitions(&ranges);
        let found = cut(&ranges, noon(today), length);
        let found = found.map(|(range, bounds)| (range.number, days(&bounds)));
        assert_eq!(found, expected, "{what}");
    }
}

#[test]
fn old_neighbours_become_one() {
    const MOST: i64 = RESTS_BYTES_MAX;
    for (what, ranges, before, expected) in [
        ("none is old", vec![(0, 0, true), (100, 9, false), (107, 9, false)], 106, None),
        ("one is", vec![(0, 0, true), (100, 9, false), (107, 9, false)], 107, Some((0, 2))),
        (
            "what stayed is large",
            vec![(0, MOST + 1, true), (100, 9, false), (107, 9, false)],
            107,
            Some((1, 1)),
        ),
        (
            "what stayed is large together",
            vec![(0, MOST - 1, true), (50, 2, true), (100, 9, false), (107, 9, false)],
            107,
            Some((1, 2)),
        ),
        (
            "several are old",
            vec![(0, 0, true), (100, 9, false), (107, 9, false), (114, 9, false), (121, 9, false)],
            116,
            Some((0, 3)),
        ),
        ("the last has no end", vec![(0, 0, true), (100, 9, false)], 2_900_000, None),
        (
            "two that have become small",
            vec![(0, MOST, true), (50, MOST / 2, true), (80, MOST / 2, true), (100, 9, false)],
            90,
            Some((1, 2)),
        ),
        (
            "two of which one is large",
            vec![(0, MOST / 2 + 1, true), (50, 1, true), (100, 9, false)],
            90,
            None,
        ),
    ] {
        let ranges = partitions(&ranges);
        let found = merge(&ranges, noon(before));
        assert_eq!(found.map(|found| (found[0].number, found.len())), expected, "{what}");
    }
    let many: Vec<_> = (0..20).map(|at| (100 + at, 9, false)).collect();
    assert_eq!(merge(&partitions(&many), noon(200)).unwrap().len(), MERGED_MAX);
}

#[test]
fn rows_of_large_partitions_wait_until_all_are_old() {
    const SMALL: i64 = 1_000;
    let ranges = partitions(&[
        (0, 9_999, true),
        (100, 9_999, false),
        (107, 10, false),
        (114, 9_999, false),
        (121, 9_999, false),
        (300, 0, false),
    ]);
    let months = SignedDuration::from_hours(24 * 30);
    for (what, newest, retention, expected) in [
        ("small ones do not", 118, months, vec![0, 107]),
        ("one of a gap does not", 125, months, vec![0, 107, 121]),
        ("short retention does not", 118, SignedDuration::from_hours(24), vec![0, 100, 107, 114]),
        ("what is younger is left alone", 105, months, vec![0]),
    ] {
        let newest = RunId::last_of(noon(newest));
        let (firsts, untils) = row_by_row(&ranges, newest, retention, SMALL);
        assert_eq!(days(&firsts), expected, "{what}");
        assert_eq!(untils.len(), firsts.len());
    }
}

#[test]
fn a_retention_has_about_six_partitions() {
    for (retention, days) in [(0, 1), (7, 1), (30, 7), (60, 7), (90, 30), (3_650, 30)] {
        let length = length_for(SignedDuration::from_hours(24 * retention));
        assert_eq!(length, days * DAY, "{retention} days");
    }
    let weeks = partitions(&[(0, 0, true), (100, 9, false), (107, 9, false), (114, 0, false)]);
    assert_eq!(length_of(&weeks), 7 * DAY);
    assert_eq!(length_of(&partitions(&[(0, 0, true)])), 7 * DAY);
    let days = partitions(&[(0, 0, true), (100, 9, false), (101, 0, false)]);
    assert_eq!(length_of(&days), DAY);
}

#[test]
fn an_id_is_in_the_partition_of_its_time() {
    for at in [0, 1, 1_800_000_000_000, 4_102_444_800_000] {
        let time = Timestamp::from_millisecond(at).unwrap();
        let job = domain::id::JobId(Uuid::from_u128(7));
        for id in [RunId::of_tick(job, time, ""), RunId::first_of(time), RunId::last_of(time)] {
            assert!(bound(at) <= id.0 && id.0 < bound(at + 1), "{at}");
        }
    }
}
