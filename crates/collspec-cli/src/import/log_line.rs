//! A line of a log as the program wrote it, without what a terminal or a log driver has added.
use anstream::adapter::strip_str;
use std::borrow::Cow;

/// Keys under which log drivers have the line: those of Docker, Kubernetes, journald, Fluent Bit and many programs.
const TEXTS: [&str; 6] = ["log", "message", "msg", "MESSAGE", "line", "text"];

/// The lines that a line of a file stands for, without colours.
pub fn written(line: &str) -> Vec<Cow<'_, str>> {
    let plain = |text: &str| -> String { strip_str(text).to_string() };
    let wrapped = line.trim_start().starts_with('{').then(|| serde_json::from_str(line).ok()).flatten();
    let text = wrapped
        .and_then(|value: serde_json::Value| TEXTS.iter().find_map(|key| Some(value.get(key)?.as_str()?.to_owned())));
    match text {
        Some(text) => text.lines().map(|line| Cow::Owned(plain(line))).collect(),
        None if line.contains('\x1b') => vec![Cow::Owned(plain(line))],
        None => vec![Cow::Borrowed(line)],
    }
}
