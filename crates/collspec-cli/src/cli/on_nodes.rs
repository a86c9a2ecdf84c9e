//! Starts a program once on each node with software GPUs, as a launcher of a cluster does.
use super::exit::Exit;
use super::record::{cannot_start, program};
use super::terminal;
use anyhow::Context;
use collspec_run::child::descendants::{self, AFTER};
use collspec_run::child::guard::{ChildGuard, FOREVER};
use collspec_run::signals;
use std::ffi::OsString;
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::process::Stdio;

/// Runs the program with these variables, those of each node, until it has ended on all of them. The exit code is that of the first node on which it
/// failed.
///
/// # Errors
///
/// The program cannot be started.
pub fn on_each_node(words: &[OsString], nodes: Vec<Vec<(String, OsString)>>) -> anyhow::Result<Exit> {
    let count = nodes.len();
    let port = free_port().context("no port is free for the program's processes to meet")?;
    descendants::adopt().context("the processes of the program could not be found again")?;
    signals::outlive_program();
    let mut children = Vec::new();
    for (node, mut variables) in nodes.into_iter().enumerate() {
        variables.extend(of_torchrun(count, node, port));
        let mut command = program(words, &variables)?;
        if node > 0 {
            command.stdin(Stdio::null());
        }
        let child = command.spawn().with_context(|| cannot_start(command.get_program()));
        match child {
            Ok(child) => children.push(ChildGuard::of(child)),
            Err(error) => {
                descendants::kill_all();
                return Err(error);
            }
        }
    }
    signals::pass_on_to(&children.iter().map(ChildGuard::id).collect::<Vec<_>>());
    let mut first = Exit::ALL_PASSED;
    for (node, mut child) in children.into_iter().enumerate() {
        child.ends_within(FOREVER);
        signals::pass_on_no_more(child.id());
        let ended = Exit::of_program(child.end().context("cannot wait for the program")?);
        if ended != Exit::ALL_PASSED {
            let code = ended.code();
            writeln!(terminal::err(), "collspec: the program on node {node} has ended with exit code {code}")?;
        }
        first = if first == Exit::ALL_PASSED { ended } else { first };
    }
    let left = descendants::end_within(AFTER);
    if left > 0 {
        descendants::kill_all();
        writeln!(terminal::err(), "collspec: {left} processes that the program had left behind were ended")?;
    }
    Ok(first)
}

/// What torchrun reads where its options say nothing.
fn of_torchrun(nodes: usize, node: usize, port: u16) -> [(String, OsString); 4] {
    [
        ("PET_NNODES", nodes.to_string()),
        ("PET_NODE_RANK", node.to_string()),
        ("PET_MASTER_ADDR", Ipv4Addr::LOCALHOST.to_string()),
        ("PET_MASTER_PORT", port.to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value.into()))
}

/// The number of a port of this machine that is free at the moment.
fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}
