use super::*;

/// Slices of texts that follow each other; a number is a cut of so many bytes.
fn slices(parts: &[std::result::Result<&str, u64>], at_once: usize) -> Vec<Slice> {
    let mut slices = Vec::new();
    let mut position = 0;
    for part in parts {
        match part {
            Ok(text) => {
                for bytes in text.as_bytes().chunks(at_once) {
                    let length = bytes.len();
                    let pieces = vec![Piece::Text { position, length }];
                    slices.push(Slice { bytes: bytes.to_vec(), pieces, ..Slice::default() });
                    position += length as u64;
                }
            }
            Err(omitted) => {
                let bytes = b"\n[...]\n".to_vec();
                let omitted = *omitted;
                let pieces = vec![Piece::Cut { position, omitted, length: bytes.len() }];
                slices.push(Slice { bytes, pieces, ..Slice::default() });
                position += omitted;
            }
        }
    }
    slices
}

/// Lines as `number@position text`.
#[derive(Default)]
struct Lines(Vec<String>);

impl LineSink for Lines {
    fn begin(&mut self, line: u64, position: u64) {
        self.0.push(format!("{line}@{position} "));
    }
    fn text(&mut self, bytes: &[u8]) {
        if let Some(last) = self.0.last_mut() {
            last.push_str(&String::from_utf8_lossy(bytes));
        }
    }
    fn end(&mut self) -> bool {
        true
    }
    fn cut(&mut self, cut: LogCut) {
        self.0.push(format!("{}@{} -{}", cut.line, cut.position, cut.omitted));
    }
}

#[test]
fn lines_have_numbers_and_positions() {
    for (parts, expected) in [
        (&[Ok("one\ntwo\n")][..], &["0@0 one", "1@4 two"][..]),
        (&[Ok("one\n\nthree")], &["0@0 one", "1@4 ", "2@5 three"]),
        (&[Ok("he"), Err(100), Ok("il\nend\n")], &["0@0 he", "1@2 -100", "2@102 il", "3@105 end"]),
        // The lines shown include an empty one before the cut.
        (&[Ok("he\n"), Err(7), Ok("x")], &["0@0 he", "1@3 ", "2@3 -7", "3@10 x"]),
        (&[], &[]),
    ] {
        for at_once in [1, 2, 100] {
            let (mut scan, mut lines) = (Scan::at(0, 0), Lines::default());
            for slice in slices(parts, at_once) {
                assert!(scan.feed(&slice, &mut lines));
            }
            assert_eq!(lines.0, expected, "{at_once} bytes at once");
        }
    }
}

#[test]
fn marks_are_set_after_lines_bytes_and_cuts() {
    let short = "x\n".repeat(2_500);
    let long = format!("{}\n", "y".repeat(200 << 10)).repeat(3);
    let mut marks = Marks::default();
    let mut scan = Scan::at(0, 0);
    for slice in slices(&[Ok(&short), Ok(&long), Err(9), Ok("z\n")], 1 << 20) {
        scan.feed(&slice, &mut marks);
    }
    let lines: Vec<u64> = marks.marks.iter().map(|mark| mark.line).collect();
    assert_eq!(lines, [0, 1_000, 2_000, 2_502, 2_505]);
    assert_eq!(marks.marks[1].position, 2_000);
    let position = short.len() as u64 + long.len() as u64;
    assert_eq!(marks.cuts, [LogCut { line: 2_504, position, omitted: 9 }]);
}

fn found(q: &str, flags: [bool; 3], text: &str) -> Vec<(u64, String)> {
    let [regex, case, word] = flags.map(Some);
    let params = LogSearchParams {
        attempt: None,
        stream: None,
        q: q.to_owned(),
        regex,
        case,
        word,
        from: None,
        line: None,
        limit: None,
    };
    let pattern = pattern(&params).unwrap();
    let (hits, text_of_line) = (Vec::new(), Vec::new());
    let mut matches = Matches {
        pattern,
        limit: 100,
        hits,
        line: 0,
        position: 0,
        text: text_of_line,
        has_matched: false,
    };
    let mut scan = Scan::at(0, 0);
    for slice in slices(&[Ok(text)], 3) {
        scan.feed(&slice, &mut matches);
    }
    scan.close(text.len() as u64, &mut matches);
    matches.hits.into_iter().map(|hit| (hit.line, hit.text)).collect()
}

#[test]
fn lines_that_match_are_found() {
    let text = "start\n\x1b[31mERROR\x1b[0m: disk full\nerrors: 0\n10%\r50%\r100% done\nlast error";
    for (q, flags, expected) in [
        ("error", [false; 3], &[1, 2, 4][..]),
        ("ERROR", [false, true, false], &[1]),
        ("error", [false, false, true], &[1, 4]),
        ("error: disk", [false; 3], &[1]),
        ("errors?: [0d]", [true, false, false], &[1, 2]),
        ("errors?: [0d]", [false; 3], &[]),
        ("50%", [false; 3], &[3]),
        ("^last", [true, false, false], &[4]),
    ] {
        let lines: Vec<u64> = found(q, flags, text).into_iter().map(|(line, _)| line).collect();
        assert_eq!(lines, expected, "{q}");
    }
    assert_eq!(found("disk", [false; 3], text)[0].1, "ERROR: disk full");
    assert_eq!(found("done", [false; 3], text)[0].1, "10% 50% 100% done");
}

#[test]
fn a_hit_shows_the_line_around_the_match() {
    let line = format!("{}needle{}", "a".repeat(5_000), "b".repeat(5_000));
    let hit = &found("needle", [false; 3], &line)[0].1;
    assert!(hit.starts_with("… aaa") && hit.contains("needleb") && hit.ends_with("b …"), "{hit}");
    assert_eq!(hit.chars().count(), 240);
    // A line of several megabytes is searched in pieces.
    let line = format!("{}needle\nx", "a".repeat(3 << 20));
    assert_eq!(found("needle", [false; 3], &line).len(), 1);
}

#[test]
fn wrong_patterns_are_refused() {
    for (q, regex) in [("", false), ("(", true), ("(a{1000}){1000}", true)] {
        let params = LogSearchParams {
            attempt: None,
            stream: None,
            q: q.to_owned(),
            regex: Some(regex),
            case: None,
            word: None,
            from: None,
            line: None,
            limit: None,
        };
        let problem = pattern(&params).unwrap_err();
        assert_eq!(problem.details[0].field, "q", "{q}");
    }
}
