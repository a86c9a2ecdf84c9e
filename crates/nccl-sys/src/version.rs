//! NCCL's version codes: numbers in calls, text for people.
use std::ffi::c_int;

/// NCCL's version code in words: 23007 is 2.30.7.
pub fn version_text(code: c_int) -> String {
    // since 2.9 the code is major * 10000 + minor * 100 + patch, before that major * 1000 + ...
    let unit = if code >= 10_000 { 10_000 } else { 1_000 };
    format!("{}.{}.{}", code / unit, code % unit / 100, code % 100)
}

/// The code of a version, or of a release's first one: `"2.28"` is 22800, `"2.28.7"` is 22807. `None` for what names no
/// version, such as the `"-"` of extensions.
pub fn release(text: &str) -> Option<c_int> {
    let mut parts = text.split('.').map(|part| part.parse::<c_int>().ok().filter(|number| (0..100).contains(number)));
    let (major, minor) = (parts.next()??, parts.next()??);
    let patch = parts.next().unwrap_or(Some(0))?;
    let unit = if major <= 2 && minor <= 8 { 1_000 } else { 10_000 };
    parts.next().is_none().then_some(major * unit + minor * 100 + patch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_texts() {
        for (code, text) in [(2708, "2.7.8"), (2804, "2.8.4"), (20908, "2.9.8"), (21304, "2.13.4"), (23007, "2.30.7")] {
            assert_eq!(version_text(code), text);
        }
        for (text, code) in [("2.0", Some(2000)), ("2.8", Some(2800)), ("2.9", Some(20900)), ("2.28.7", Some(22807))] {
            assert_eq!(release(text), code);
        }
        for none in ["-", "", "2", "two.one", "2.100", "-1.3", "2.1.1.1", "2.1."] {
            assert_eq!(release(none), None, "{none}");
        }
    }
}
