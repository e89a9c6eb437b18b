//! Commands and what they print, stdout and stderr together.

#[test]
fn transcripts() {
    trycmd::TestCases::new()
        .default_bin_path(env!("CARGO_BIN_EXE_punctual"))
        .register_bin("punctual", std::path::Path::new(env!("CARGO_BIN_EXE_punctual")))
        .env("NO_COLOR", "1")
        .case("tests/transcripts/*.trycmd")
        .case("README.md");
}
