//! `punctual top`: shows the state of a server until the user quits.
//!
//! One thread polls the server at the chosen interval; the other one draws and reads the keyboard,
//! so that `q` works while a response is on its way.

mod look;
mod screen;

use std::io::{IsTerminal, stdin, stdout};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use clap::Args;
use domain::schedule::parse_duration;
use jiff::SignedDuration;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::cli_error::CliError;
use crate::client::{Client, ServerArgs};
use crate::clock;
use crate::exit::Failure;

use look::Snapshot;
use screen::{Screen, View};

/// The longest wait for a key before the screen is drawn again if it has changed.
const TICK: Duration = Duration::from_millis(200);

/// Server and interval.
#[derive(Args)]
#[command(after_help = "\
Keys:
  q, Esc    quit
  s         sort running jobs: by age, by name, by the time they stand for
  f         sort failing jobs: by how often, by how recently
  p         pause and go on
  r         look now

Five small requests are made each time. When the server goes away, the last picture stays and says
since when; it goes on when the server is back. For scripts, see punctual status.")]
pub struct TopArgs {
    /// The time between two looks
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = seconds)]
    every: u8,

    #[command(flatten)]
    server: ServerArgs,
}

/// Whole seconds: `5s`, `1m`, or a number of them.
fn seconds(text: &str) -> Result<u8, String> {
    let seconds = match text.parse::<u8>() {
        Ok(seconds) => i64::from(seconds),
        Err(_) => parse_duration(text).map_err(|error| error.problem)?.as_secs(),
    };
    match u8::try_from(seconds) {
        Ok(seconds @ 1..) => Ok(seconds),
        _ => Err("it must be 1 to 255 seconds".to_owned()),
    }
}

/// Runs the command.
pub fn run(args: TopArgs) -> Result<(), Failure> {
    if !stdin().is_terminal() || !stdout().is_terminal() {
        let error = CliError::new("top needs a terminal");
        return Err(error.hint("punctual status prints the state once").into());
    }
    if args.server.verbose {
        let error = CliError::new("--verbose cannot be used with top");
        return Err(error.hint("punctual status -v prints them").into());
    }
    let server = args.server;
    let client = Client::new(&server)?;
    let screen = Screen::new(client.place().url().as_str(), args.every);
    let (wish, wishes) = channel();
    let (send, snapshots) = channel();
    let pause = SignedDuration::from_secs(i64::from(args.every));
    // The thread ends with the process; a request in flight is dropped.
    std::thread::spawn(move || ask(client, &server, pause, &send, &wishes));
    let mut terminal = ratatui::try_init()?;
    let shown = show(&mut terminal, screen, &snapshots, &wish);
    ratatui::restore();
    shown
}

/// Asks the server again and again. A wish makes the next time come at once.
fn ask(
    mut client: Client,
    server: &ServerArgs,
    pause: SignedDuration,
    snapshots: &Sender<Snapshot>,
    wishes: &Receiver<()>,
) {
    loop {
        let snapshot = look::look(&client, clock::now());
        // It may come back at another address, which is in its data folder.
        if snapshot.seen.is_err()
            && let Ok(again) = Client::new(server)
        {
            client = again;
        }
        if snapshots.send(snapshot).is_err() {
            return;
        }
        match wishes.recv_timeout(pause.unsigned_abs()) {
            // Many wishes are one.
            Ok(()) => while wishes.try_recv().is_ok() {},
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn show(
    terminal: &mut ratatui::DefaultTerminal,
    mut screen: Screen,
    snapshots: &Receiver<Snapshot>,
    wish: &Sender<()>,
) -> Result<(), Failure> {
    let mut view = View::default();
    loop {
        terminal.draw(|frame| screen.draw(frame, view, clock::now()))?;
        if event::poll(TICK)?
            && let Event::Key(key) = event::read()?
            && key.kind == KeyEventKind::Press
        {
            match pressed(key) {
                Pressed::Quit => return Ok(()),
                Pressed::SortRunning => view.running = view.running.next(),
                Pressed::SortFailing => view.failing = view.failing.next(),
                Pressed::Pause => view.is_paused = !view.is_paused,
                // An extra poll on request of the user.
                Pressed::Look => drop(wish.send(())),
                Pressed::Other => {}
            }
        }
        while let Ok(snapshot) = snapshots.try_recv() {
            if !view.is_paused {
                screen.take(snapshot);
            }
        }
    }
}

/// The action of a key.
#[derive(Debug, PartialEq, Eq)]
enum Pressed {
    Quit,
    SortRunning,
    SortFailing,
    Pause,
    Look,
    Other,
}

fn pressed(key: KeyEvent) -> Pressed {
    match key.code {
        KeyCode::Char('c' | 'd') if key.modifiers.contains(KeyModifiers::CONTROL) => Pressed::Quit,
        KeyCode::Char('q' | 'Q') | KeyCode::Esc => Pressed::Quit,
        KeyCode::Char('s') => Pressed::SortRunning,
        KeyCode::Char('f') => Pressed::SortFailing,
        KeyCode::Char('p' | ' ') => Pressed::Pause,
        KeyCode::Char('r') => Pressed::Look,
        _ => Pressed::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_do_what_the_help_says() {
        let key = |code, modifiers| pressed(KeyEvent::new(code, modifiers));
        let plain = |c| key(KeyCode::Char(c), KeyModifiers::NONE);
        assert_eq!(plain('q'), Pressed::Quit);
        assert_eq!(key(KeyCode::Esc, KeyModifiers::NONE), Pressed::Quit);
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::CONTROL), Pressed::Quit);
        assert_eq!(plain('c'), Pressed::Other);
        assert_eq!(plain('s'), Pressed::SortRunning);
        assert_eq!(plain('f'), Pressed::SortFailing);
        assert_eq!(plain('p'), Pressed::Pause);
        assert_eq!(plain('r'), Pressed::Look);
    }
}
