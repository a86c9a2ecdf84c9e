//! Parses the requested misbehaviour.
use soft_nccl::Algorithm;
use std::ffi::{CStr, CString, OsStr, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::OnceLock;

/// A kind of misbehaviour, with the demand's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Version(c_int),
    /// The text that replaces the texts of errors.
    Text(CString),
    /// The algorithm taken when NCCL_ALGO is unset and it serves the operation.
    Algorithm(Algorithm),
    /// The value of a variable that the environment lacks.
    Default(String, String),
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
    /// Hangs in one of this many processes.
    HangStart(u32),
    WrongStart(u32),
    /// Per cent of an operation's own time.
    Slow(u32),
    /// The delay in milliseconds.
    SlowInit(u32),
    /// The number of bytes.
    Leak(usize),
    LeakHost(usize),
    LeakDescriptor,
    LeakThread,
    ChangeAffinity,
    SetVariable(String),
}

/// A fault, and the rank that it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Demand {
    pub fault: Fault,
    pub rank: Option<c_int>,
}

fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.trim().parse().map_err(|_| format!("{text:?} is not a number, or out of range"))
}

/// A number of processes, one of which is meant.
fn one_in(text: &str) -> Result<u32, String> {
    number(text).and_then(|n| if n > 0 { Ok(n) } else { Err("the number of processes must be 1 or more".to_owned()) })
}

/// A text that is valid as the name of a variable.
fn variable(text: &str) -> Result<String, String> {
    let name = text.trim();
    let plain = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if plain { Ok(name.to_owned()) } else { Err(format!("{name:?} is not the name of a variable")) }
}

/// The faults whose value is text, which may hold any character; `None` for other words.
fn with_text(word: &str, value: &str) -> Option<Result<Fault, String>> {
    Some(match word {
        "text" => CString::new(value.trim()).map(Fault::Text).map_err(|_| "a text holds no zero byte".to_owned()),
        "algorithm" => value.parse().map(Fault::Algorithm),
        "set-variable" => variable(value).map(Fault::SetVariable),
        "default" => match value.split_once(':') {
            Some((name, value)) => variable(name).map(|name| Fault::Default(name, value.trim().to_owned())),
            None => Err(format!("{value:?} is not VARIABLE:VALUE")),
        },
        _ => return None,
    })
}

impl Demand {
    fn parse(text: &str) -> Result<Self, String> {
        if let Some((word, value)) = text.split_once('=')
            && let Some(fault) = with_text(word.trim(), value)
        {
            return fault.map(|fault| Self { fault, rank: None });
        }
        let (body, rank) = match text.split_once('@') {
            Some((body, rank)) => (body, Some(number(rank)?)),
            None => (text, None),
        };
        let (word, value) = match body.split_once('=') {
            Some((word, value)) => (word.trim(), Some(value)),
            None => (body.trim(), None),
        };
        let code = |standard: c_int| value.map_or(Ok(standard), number);
        let fault = match (word, value) {
            ("version", Some(value)) => Fault::Version(number(value)?),
            ("error-init", _) => Fault::ErrorInit(code(3)?),
            ("error-collective", _) => Fault::ErrorCollective(code(3)?),
            ("error-destroy", _) => Fault::ErrorDestroy(code(3)?),
            ("async-error", _) => Fault::AsyncError(code(6)?),
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
            ("hang-start", Some(value)) => Fault::HangStart(one_in(value)?),
            ("wrong-start", Some(value)) => Fault::WrongStart(one_in(value)?),
            ("slow", Some(value)) => Fault::Slow(number(value)?),
            ("slow-init", Some(value)) => Fault::SlowInit(number(value)?),
            ("leak", Some(value)) => Fault::Leak(number(value)?),
            ("leak-host", Some(value)) => Fault::LeakHost(number(value)?),
            ("leak-descriptor", None) => Fault::LeakDescriptor,
            ("leak-thread", None) => Fault::LeakThread,
            ("change-affinity", None) => Fault::ChangeAffinity,
            _ => return Err(format!("there is no fault {body:?}")),
        };
        Ok(Self { fault, rank })
    }
}

fn parse(text: &str) -> Result<Vec<Demand>, String> {
    text.split([';', '\n']).map(str::trim).filter(|part| !part.is_empty()).map(Demand::parse).collect()
}

/// The path by which this library was opened.
fn own_path() -> Option<PathBuf> {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: the address of something in this library, and a place for the information about it.
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

static WANTED: OnceLock<Result<Vec<Demand>, CString>> = OnceLock::new();

/// The demands, read once; the error names a demand that cannot be parsed.
pub(crate) fn wanted() -> Result<&'static [Demand], &'static CStr> {
    let read = || {
        let beside = own_path().map(|path| path.with_file_name("standin.faults"));
        let mut text = beside.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
        text.push('\n');
        text.push_str(&std::env::var("COLLSPEC_STANDIN_FAULT").unwrap_or_default());
        parse(&text).map_err(|why| CString::new(format!("stand-in NCCL: {why}")).unwrap_or_default())
    };
    WANTED.get_or_init(read).as_deref().map_err(CString::as_c_str)
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
    fn texts_hold_any_character_but_those_between_demands() {
        let fault = |text: &str| parse(text).unwrap().remove(0).fault;
        assert_eq!(fault("text=at rank @1 = wrong"), Fault::Text(c"at rank @1 = wrong".to_owned()));
        assert_eq!(fault("algorithm=tree"), Fault::Algorithm(Algorithm::Tree));
        let default = Fault::Default("NCCL_ALGO".to_owned(), "allreduce:Tree".to_owned());
        assert_eq!(fault("default=NCCL_ALGO:allreduce:Tree"), default);
        assert_eq!(fault("set-variable=NCCL_X"), Fault::SetVariable("NCCL_X".to_owned()));
    }

    #[test]
    fn what_is_no_demand_is_named() {
        for (text, words) in [
            ("wrong", "no fault \"wrong\""),
            ("version", "no fault \"version\""),
            ("hang-init=3", "no fault \"hang-init=3\""),
            ("version=two", "\"two\" is not a number"),
            ("wrong-data@x", "\"x\" is not a number"),
            ("hang-start", "no fault \"hang-start\""),
            ("hang-start=0", "the number of processes must be 1 or more"),
            ("slow=-1", "\"-1\" is not a number, or out of range"),
            ("algorithm=Rings", "`rings`"),
            ("set-variable=A B", "\"A B\" is not the name of a variable"),
            ("default=NCCL_ALGO", "\"NCCL_ALGO\" is not VARIABLE:VALUE"),
        ] {
            let why = parse(text).expect_err(text);
            assert!(why.contains(words), "{text}: {why}");
        }
    }
}
