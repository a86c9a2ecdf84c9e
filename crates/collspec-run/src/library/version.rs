//! A request for a version, complete or only its beginning.
use std::ffi::c_int;
use std::fmt;

/// `2.30.7`, or `2.30` for any patch of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionRequest {
    major: c_int,
    minor: c_int,
    patch: Option<c_int>,
}

impl VersionRequest {
    /// Parses a request; `None` if the text is not a version.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.').map(|part| {
            let digits = !part.is_empty() && part.len() <= 2 && part.bytes().all(|byte| byte.is_ascii_digit());
            digits.then(|| part.parse::<c_int>().ok()).flatten()
        });
        let (major, minor) = (parts.next()??, parts.next()??);
        let patch = match parts.next() {
            None => None,
            Some(part) => Some(part?),
        };
        (parts.next().is_none() && major > 0).then_some(Self { major, minor, patch })
    }

    /// True if it names one version.
    pub fn is_whole(self) -> bool {
        self.patch.is_some()
    }

    /// True if a library of this version may meet the request.
    pub fn admits(self, version: Self) -> bool {
        let patch = self.patch.is_none() || version.patch.is_none() || self.patch == version.patch;
        (self.major, self.minor) == (version.major, version.minor) && patch
    }

    /// True if a library with this version code meets the request.
    pub fn matches(self, code: c_int) -> bool {
        let unit = if code >= 10_000 { 10_000 } else { 1_000 };
        let (major, minor, patch) = (code / unit, code % unit / 100, code % 100);
        self.major == major && self.minor == minor && self.patch.is_none_or(|wanted| wanted == patch)
    }
}

impl fmt::Display for VersionRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)?;
        self.patch.map_or(Ok(()), |patch| write!(f, ".{patch}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_versions_and_beginnings() {
        let wanted = |text| VersionRequest::parse(text).unwrap();
        assert!(wanted("2.30.7").matches(23007) && !wanted("2.30.7").matches(23003));
        assert!(wanted("2.30").matches(23007) && wanted("2.30").matches(23000) && !wanted("2.3").matches(23007));
        assert!(wanted("2.7.8").matches(2708) && wanted("2.9.8").matches(20908));
        assert_eq!(wanted("2.30").to_string(), "2.30");
        for bad in ["", "2", "2.", ".2", "2.30.7.1", "2.x", "v2.30", "2.-1", "+2.3", "libnccl.so.2", "0.1", "2.300"] {
            assert_eq!(VersionRequest::parse(bad), None, "{bad}");
        }
    }
}
