//! Commands that people paste into a shell.

/// `word` as a POSIX shell reads it back: as it is where nothing in it is special, else in single quotes.
pub fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./+:@%,".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.to_owned() } else { quoted(word) }
}

/// `word` in single quotes, whatever it holds.
pub fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_back_what_was_quoted() {
        for word in ["plain/a.toml", "a b", "x[n=2,variant=a]", "it's", "'", "", "$HOME `id` \\ \" *?", "~", "-n", "ü"]
        {
            for text in [quote(word), quoted(word)] {
                let shell =
                    std::process::Command::new("sh").args(["-c", &format!("printf %s {text}")]).output().unwrap();
                // printf takes no options after its format, so "-n" is safe too.
                assert_eq!(String::from_utf8(shell.stdout).unwrap(), word, "{text}");
            }
        }
    }
}
