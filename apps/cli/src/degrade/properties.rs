//! Reads what `java.util.Properties.store` writes.

/// A property's value, if it is there.
pub fn find(text: &str, name: &str) -> Option<String> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(entry).find(|(key, _)| key == name).map(|(_, value)| value)
}

/// Key and value of a line.
fn entry(line: &str) -> (String, String) {
    let mut key = String::new();
    let mut value = None::<String>;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        let literal = match c {
            '=' if value.is_none() => {
                value = Some(String::new());
                continue;
            }
            '\\' => escaped(&mut chars),
            c => Some(c),
        };
        value.as_mut().unwrap_or(&mut key).extend(literal);
    }
    (key, value.unwrap_or_default())
}

/// The character behind a backslash. Half of a pair, which Java writes for what is beyond U+FFFF, is a replacement.
fn escaped(chars: &mut std::str::Chars<'_>) -> Option<char> {
    match chars.next()? {
        't' => Some('\t'),
        'n' => Some('\n'),
        'r' => Some('\r'),
        'f' => Some('\u{c}'),
        'u' => {
            let digits: String = chars.by_ref().take(4).collect();
            let code = u32::from_str_radix(&digits, 16).ok()?;
            Some(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER))
        }
        other => Some(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_as_they_were() {
        let text = "#Thu Nov 26 03:00:00 UTC 2026\n\
                    a.b=plain\n\
                    path=C\\:\\\\x \\= y\n\
                    key\\=with\\ both=\\u00e9\\n{\"n\"\\:1}\n\
                    empty=\n";
        assert_eq!(find(text, "a.b").as_deref(), Some("plain"));
        assert_eq!(find(text, "path").as_deref(), Some("C:\\x = y"));
        assert_eq!(find(text, "key=with both").as_deref(), Some("é\n{\"n\":1}"));
        assert_eq!(find(text, "empty").as_deref(), Some(""));
        assert_eq!(find(text, "a"), None);
        assert_eq!(find("x=\\u12", "x").as_deref(), Some("\u{12}"));
        assert_eq!(find("x=\\", "x").as_deref(), Some(""));
    }
}
