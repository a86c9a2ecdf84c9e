//! Whether data is copied, of which calls, and how much.
use crate::places::mixed;
use std::sync::LazyLock;

/// The variable that switches copies on: `seed=1 share=0.5 all=0 limit=1000000`, each of which may be missing.
const VARIABLE: &str = "COLLSPEC_JUDGE";

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    pub seed: u64,
    /// The share of the calls that are looked at.
    share: f64,
    /// Every element.
    pub all: bool,
    /// Bytes of a process's file.
    pub limit: u64,
}

impl Settings {
    fn read(text: &str) -> Self {
        let mut settings = Self { seed: 0, share: 1.0, all: false, limit: u64::MAX };
        for (name, value) in text.split_ascii_whitespace().filter_map(|word| word.split_once('=')) {
            match name {
                "seed" => settings.seed = value.parse().unwrap_or(settings.seed),
                "share" => settings.share = value.parse().unwrap_or(settings.share),
                "all" => settings.all = value == "1",
                "limit" => settings.limit = value.parse().unwrap_or(settings.limit),
                _ => {}
            }
        }
        settings
    }

    /// What decides a call's places, if the call is looked at: the same on all ranks.
    pub fn draw(&self, call: u64) -> Option<u64> {
        let draw = mixed(self.seed ^ mixed(call));
        let is_looked_at = self.share >= 1.0 || (mixed(draw) as f64) < self.share * u64::MAX as f64;
        is_looked_at.then_some(draw)
    }
}

/// The settings; `None` if calls are written down without data.
pub fn settings() -> Option<&'static Settings> {
    static SETTINGS: LazyLock<Option<Settings>> =
        LazyLock::new(|| std::env::var(VARIABLE).ok().map(|text| Settings::read(&text)));
    SETTINGS.as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_calls_is_looked_at() {
        let settings = Settings::read("seed=7 share=0.25 limit=100");
        let looked_at = (0..10_000).filter(|call| settings.draw(*call).is_some()).count();
        assert!((2300..2700).contains(&looked_at), "{looked_at}");
        assert_eq!(settings.limit, 100);
        assert!((0..100).all(|call| Settings::read("").draw(call).is_some()));
        assert!((0..100).all(|call| Settings::read("share=0").draw(call).is_none()));
    }
}
