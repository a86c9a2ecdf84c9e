//! How many of the selected cases have to run, so that a run in which most were skipped is not taken for a good one.

/// A number of cases, or a part of those that are selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtLeast {
    Cases(usize),
    Percent(u8),
}

impl AtLeast {
    /// All of them: none may be skipped.
    pub const ALL: Self = Self::Percent(100);

    /// Reads `200` or `95%`.
    ///
    /// # Errors
    ///
    /// It is neither.
    pub fn parse(text: &str) -> Result<Self, String> {
        let percent = text.strip_suffix('%').map(|number| number.trim().parse().ok().filter(|percent| *percent <= 100));
        let parsed = match percent {
            Some(percent) => percent.map(Self::Percent),
            None => text.parse().ok().map(Self::Cases),
        };
        parsed.ok_or_else(|| "expected a number of cases, or a part of them such as 95%".to_owned())
    }

    /// What is wrong if only `ran` of the `selected` cases were run.
    pub fn unmet(self, ran: usize, selected: usize) -> Option<String> {
        let met = match self {
            Self::Cases(cases) => ran >= cases,
            Self::Percent(percent) => ran as u128 * 100 >= selected as u128 * u128::from(percent),
        };
        let required = match self {
            Self::ALL => "all".to_owned(),
            Self::Percent(percent) => format!("{percent}%"),
            Self::Cases(cases) => cases.to_string(),
        };
        (!met).then(|| format!("{ran} of {selected} cases ran, and {required} were required"))
    }

    /// As it is written in an option.
    pub fn as_option(self) -> String {
        match self {
            Self::Cases(cases) => cases.to_string(),
            Self::Percent(percent) => format!("{percent}%"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_parts_are_held_against_what_ran() {
        assert_eq!(AtLeast::parse("12"), Ok(AtLeast::Cases(12)));
        assert_eq!(AtLeast::parse("95%"), Ok(AtLeast::Percent(95)));
        for wrong in ["", "%", "101%", "-1", "1.5", "all"] {
            assert!(AtLeast::parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(AtLeast::Cases(3).unmet(3, 9), None);
        assert!(AtLeast::Cases(3).unmet(2, 2).is_some());
        assert_eq!(AtLeast::Percent(50).unmet(1, 2), None);
        assert!(AtLeast::Percent(51).unmet(1, 2).is_some());
        assert_eq!(AtLeast::ALL.unmet(2, 3).as_deref(), Some("2 of 3 cases ran, and all were required"));
        assert_eq!(AtLeast::ALL.unmet(0, 0), None);
    }
}
