//! "Did you mean": the nearest of the known words.

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
        .map(|k| (distance(&lower, &k.to_ascii_lowercase()), k))
        .filter(|(d, k)| *d <= limit && *d < k.chars().count())
        .min_by_key(|(d, _)| *d)
        .map(|(_, k)| k)
}

/// Insertions, deletions, replacements and swaps of neighbours that turn one word into the other.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = match (i, j) {
                (0, _) => j,
                (_, 0) => i,
                _ => {
                    let change = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                    let mut best = change.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
                    if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                        best = best.min(rows[i - 2][j - 2] + 1);
                    }
                    best
                }
            };
        }
    }
    rows[a.len()][b.len()]
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
