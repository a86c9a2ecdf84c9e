//! `collspec` as several processes, as a launcher starts them.
#![allow(dead_code)] // Each test target uses its share.

use super::Home;
use super::processes::{Descendants, end_of};
use std::fs;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

/// Takes long enough to be interrupted.
pub const LONG: &str =
    "world_size = 2\nop = \"all_reduce\"\ninputs = [[1, 2], [3, 4]]\nrepeat = 300000\ntimeout = 600\n";

/// A port that is free now.
pub fn port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

/// Processes that were started together.
pub struct Job {
    pub children: Vec<(Child, Descendants)>,
}

/// What came of them, by rank.
pub struct Ended {
    pub codes: Vec<i32>,
    pub out: Vec<String>,
    pub err: Vec<String>,
}

impl Job {
    /// Starts `size` processes with these arguments; `change` may change the command of a rank.
    pub fn start(home: &Home, size: u32, args: &[&str], change: impl Fn(u32, &mut Command)) -> Self {
        let meeting = format!("127.0.0.1:{}", port());
        let children = (0..size).map(|rank| {
            let mut command = home.command(args);
            command.env("COLLSPEC_RANK", rank.to_string()).env("COLLSPEC_SIZE", size.to_string());
            command.env("COLLSPEC_LOCAL_RANK", rank.to_string()).env("COLLSPEC_MEETING", &meeting);
            change(rank, &mut command);
            Descendants::of(&command, |shell| {
                let file = |name: &str| fs::File::create(home.path(&format!("{name}{rank}"))).unwrap();
                shell.stdout(Stdio::from(file("out"))).stderr(Stdio::from(file("err")));
            })
        });
        Self { children: children.collect() }
    }

    /// Waits for all of them, and for everything that they have started.
    pub fn end(self, home: &Home) -> Ended {
        let mut codes = Vec::new();
        for (mut child, descendants) in self.children {
            codes.push(end_of(&mut child).code().unwrap_or(-1));
            descendants.wait_for_end();
        }
        let all = |name: &str| -> Vec<String> {
            (0..codes.len()).map(|rank| fs::read_to_string(home.path(&format!("{name}{rank}"))).unwrap()).collect()
        };
        Ended { out: all("out"), err: all("err"), codes }
    }
}

pub fn run(home: &Home, size: u32, args: &[&str], change: impl Fn(u32, &mut Command)) -> Ended {
    Job::start(home, size, args, change).end(home)
}
