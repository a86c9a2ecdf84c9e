//! What misbehaviour is asked for.
use std::ffi::{CStr, OsStr, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::OnceLock;

/// A kind of misbehaviour; a number is what the demand's value says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Version(c_int),
    WrongData,
    ErrorInit(c_int),
    ErrorCollective(c_int),
    ErrorDestroy(c_int),
    AsyncError(c_int),
    HangInit,
    HangCollective,
    HangSynchronize,
    HangDefault,
    HangDestroy,
    HangAbort,
    CrashInit,
    CrashCollective,
    CrashDestroy,
    CrashStream,
    ExitCollective,
}

/// A fault, and the rank that it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Demand {
    pub fault: Fault,
    pub rank: Option<c_int>,
}

impl Demand {
    fn parse(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.trim().parse::<c_int>().map_err(|_| format!("{text:?} is no number"));
        let (body, rank) = match text.split_once('@') {
            Some((body, rank)) => (body, Some(number(rank)?)),
            None => (text, None),
        };
        let (word, value) = match body.split_once('=') {
            Some((word, value)) => (word.trim(), Some(number(value)?)),
            None => (body.trim(), None),
        };
        let fault = match (word, value) {
            ("version", Some(number)) => Fault::Version(number),
            ("error-init", code) => Fault::ErrorInit(code.unwrap_or(3)),
            ("error-collective", code) => Fault::ErrorCollective(code.unwrap_or(3)),
            ("error-destroy", code) => Fault::ErrorDestroy(code.unwrap_or(3)),
            ("async-error", code) => Fault::AsyncError(code.unwrap_or(6)),
            ("wrong-data", None) => Fault::WrongData,
            ("hang-init", None) => Fault::HangInit,
            ("hang-collective", None) => Fault::HangCollective,
            ("hang-synchronize", None) => Fault::HangSynchronize,
            ("hang-default", None) => Fault::HangDefault,
            ("hang-destroy", None) => Fault::HangDestroy,
            ("hang-abort", None) => Fault::HangAbort,
            ("crash-init", None) => Fault::CrashInit,
            ("crash-collective", None) => Fault::CrashCollective,
            ("crash-destroy", None) => Fault::CrashDestroy,
            ("crash-stream", None) => Fault::CrashStream,
            ("exit-collective", None) => Fault::ExitCollective,
            _ => return Err(format!("there is no fault {body:?}")),
        };
        Ok(Self { fault, rank })
    }
}

/// All demands of a text.
fn parse(text: &str) -> Result<Vec<Demand>, String> {
    text.split([';', '\n']).map(str::trim).filter(|part| !part.is_empty()).map(Demand::parse).collect()
}

/// The path by which this library was opened.
fn own_path() -> Option<PathBuf> {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: the address of something in this library, and a place for what is known about it.
    let known = unsafe { libc::dladdr((&raw const WANTED).cast(), info.as_mut_ptr()) };
    // SAFETY: zeroed is a valid state of it.
    let info = unsafe { info.assume_init() };
    if known == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader's text with its end.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(PathBuf::from(OsStr::from_bytes(name.to_bytes())))
}

static WANTED: OnceLock<Result<Vec<Demand>, String>> = OnceLock::new();

/// What is asked for, read once; the error is a demand that cannot be understood.
pub(crate) fn wanted() -> Result<&'static [Demand], &'static str> {
    let read = || {
        let beside = own_path().map(|path| path.with_file_name("standin.faults"));
        let mut text = beside.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
        text.push('\n');
        text.push_str(&std::env::var("COLLSPEC_STANDIN_FAULT").unwrap_or_default());
        parse(&text).inspect_err(|why| eprintln!("stand-in NCCL: faults: {why}"))
    };
    WANTED.get_or_init(read).as_deref().map_err(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demands_have_words_values_and_ranks() {
        let demand = |fault, rank| Demand { fault, rank };
        assert_eq!(parse(" ;\n"), Ok(vec![]));
        assert_eq!(
            parse("version=22907; wrong-data@1\nerror-init=5 @ 0;error-collective"),
            Ok(vec![
                demand(Fault::Version(22907), None),
                demand(Fault::WrongData, Some(1)),
                demand(Fault::ErrorInit(5), Some(0)),
                demand(Fault::ErrorCollective(3), None)
            ])
        );
    }

    #[test]
    fn what_is_no_demand_is_named() {
        for (text, words) in [
            ("wrong", "no fault \"wrong\""),
            ("version", "no fault \"version\""),
            ("hang-init=3", "no fault \"hang-init=3\""),
            ("version=two", "\"two\" is no number"),
            ("wrong-data@x", "\"x\" is no number"),
        ] {
            let why = parse(text).expect_err(text);
            assert!(why.contains(words), "{text}: {why}");
        }
    }
}
