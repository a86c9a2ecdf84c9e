//! Reads `status` of a step `exit`.
use super::diagnostic::Diagnostic;
use super::reader::PointReader;
use super::tree::{TomlKind, TomlValue};
use crate::ops::ExitStatus;
use crate::suggest::nearest;

/// An exit status from 0 to 255, or the name of a signal.
pub(crate) fn exit_status(reader: &mut PointReader<'_>, val: &TomlValue) -> Option<ExitStatus> {
    let d = match &val.kind {
        TomlKind::Int(code) => match u8::try_from(*code) {
            Ok(code) => return Some(ExitStatus::Code(code)),
            Err(_) => Diagnostic::new(val.span, format!("an exit status is 0 to 255, not {code}")),
        },
        TomlKind::Str(name) => match ExitStatus::by_signal(name) {
            Some(status) => return Some(status),
            None => {
                let d = Diagnostic::new(val.span, format!("there is no signal `{}` to end by", name.escape_debug()));
                match nearest(name, ExitStatus::signal_names()) {
                    Some(near) => d.help(format!("did you mean `{near}`?")),
                    None => {
                        let known: Vec<&str> = ExitStatus::signal_names().collect();
                        d.help(format!("the signals are {}", known.join(", ")))
                    }
                }
            }
        },
        _ => Diagnostic::new(val.span, "`status` must be an exit status from 0 to 255, or the name of a signal")
            .label(format!("this is {}", val.kind_name()))
            .help("for example `status = 1` or `status = \"SIGKILL\"`"),
    };
    reader.report(d);
    None
}
