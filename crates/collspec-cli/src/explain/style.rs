//! The colours of ranks, and lines of text.

/// The colours, light enough for dark text: for SVG and HTML, and for a terminal of 256 colours. Ranks beyond them begin again.
pub const COLOURS: [(&str, u8); 8] = [
    ("#8ec9f0", 117),
    ("#f9b97f", 215),
    ("#93d98f", 114),
    ("#f3a9c8", 218),
    ("#f2e07a", 228),
    ("#c4b0f2", 183),
    ("#7fdcd0", 80),
    ("#d9bfa0", 180),
];

/// The number of a rank's colour.
pub fn colour(rank: usize) -> usize {
    rank % COLOURS.len()
}

/// Breaks a paragraph into lines of at most this many characters, at spaces.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut length = 0;
    for word in text.split_whitespace() {
        let of_word = word.chars().count();
        match lines.last_mut() {
            Some(line) if length + 1 + of_word <= width => {
                line.push(' ');
                line.push_str(word);
                length += 1 + of_word;
            }
            _ => {
                lines.push(word.to_owned());
                length = of_word;
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance by the rules of WCAG 2.
    fn luminance(hex: &str) -> f64 {
        let part = |at: usize| {
            let c = f64::from(u8::from_str_radix(&hex[at..at + 2], 16).unwrap()) / 255.0;
            if c <= 0.03928 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
    }

    #[test]
    fn dark_text_can_be_read_on_every_colour() {
        for (hex, _) in COLOURS {
            let contrast = (luminance(hex) + 0.05) / (luminance("#1b1f24") + 0.05);
            assert!(contrast > 7.0, "{hex}: {contrast}");
        }
    }

    #[test]
    fn lines_break_at_spaces() {
        assert_eq!(wrapped("one two  three", 7), ["one two", "three"]);
        assert_eq!(wrapped("unbreakable", 3), ["unbreakable"]);
    }
}
