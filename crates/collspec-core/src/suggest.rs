//! "Did you mean": the nearest of the known words.
use strsim::osa_distance;

/// Most words that are compared; a file may define very many.
const MOST: usize = 1000;

/// The word with the least edit distance, if it is near enough to be a slip.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > 64 {
        return None;
    }
    let lower = word.to_ascii_lowercase();
    let limit = (word.chars().count() / 3).max(1);
    known
        .into_iter()
        .take(MOST)
        .filter(|k| k.len().abs_diff(word.len()) <= 4 * limit)
        .map(|k| (osa_distance(&lower, &k.to_ascii_lowercase()), k))
        .filter(|(d, k)| *d <= limit && *d < k.chars().count())
        .min_by_key(|(d, _)| *d)
        .map(|(_, k)| k)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_found_and_strangers_are_not() {
        let known = ["all_reduce", "all_gather", "root", "reduce", "count"];
        assert_eq!(nearest("all_redcue", known), Some("all_reduce"));
        assert_eq!(nearest("rot", known), Some("root"));
        assert_eq!(nearest("Count", known), Some("count"));
        assert_eq!(nearest("banana", known), None);
        assert_eq!(nearest("x", ["y"]), None);
    }
}
