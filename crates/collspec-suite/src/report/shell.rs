//! Quotes words of commands that users paste into a shell.
use collspec_core::printable::is_printable;

/// The word quoted for a POSIX shell: unchanged if it has no special characters, else in quotes.
pub fn quote_if_needed(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./+:@%,".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.to_owned() } else { quote(word) }
}

/// The word in quotes: single quotes, or `$'...'` (POSIX 2024, bash, zsh, ksh) if it has characters that cannot be displayed.
pub fn quote(word: &str) -> String {
    if !word.chars().all(is_printable) {
        let mut text = String::from("$'");
        for c in word.chars() {
            match c {
                '\'' | '\\' => text.extend(['\\', c]),
                c if is_printable(c) => text.push(c),
                // Octal is known to every such shell; three digits, so that a digit after it is not read as part of it.
                c => c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| text.push_str(&format!("\\{byte:03o}"))),
            }
        }
        return text + "'";
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_shown_is_escaped_so_that_a_shell_reads_it_back() {
        for word in ["\u{1b}]0;x\u{7}", "a\n'b'\\1", "\u{202e}", "\u{9b}1", "line\n", "\t"] {
            let text = quote_if_needed(word);
            assert!(text.chars().all(is_printable), "{text:?}");
            let shell = std::process::Command::new("bash").args(["-c", &format!("printf %s {text}")]).output().unwrap();
            assert_eq!(String::from_utf8(shell.stdout).unwrap(), word, "{text}");
        }
    }

    #[test]
    fn a_shell_reads_back_what_was_quoted() {
        for word in ["plain/a.toml", "a b", "x[n=2,variant=a]", "it's", "'", "", "$HOME `id` \\ \" *?", "~", "-n", "ü"]
        {
            for text in [quote_if_needed(word), quote(word)] {
                let shell =
                    std::process::Command::new("sh").args(["-c", &format!("printf %s {text}")]).output().unwrap();
                // printf takes no options after its format, so "-n" is safe too.
                assert_eq!(String::from_utf8(shell.stdout).unwrap(), word, "{text}");
            }
        }
    }
}
