//! HTML as plain text: headings, paragraphs, lists, tables and links; it runs nothing, and takes
//! time and room by the length of a page alone, however its tags are nested.

use html5gum::{DefaultEmitter, StartTag, Token, Tokenizer};
use reqwest::Url;

/// Elements that say nothing to a reader.
const UNSEEN: [&[u8]; 4] = [b"script", b"style", b"template", b"svg"];
/// Elements that begin and end a paragraph.
const PARAGRAPHS: [&[u8]; 19] = [
    b"p",
    b"h1",
    b"h2",
    b"h3",
    b"h4",
    b"h5",
    b"h6",
    b"ul",
    b"ol",
    b"dl",
    b"table",
    b"pre",
    b"blockquote",
    b"article",
    b"section",
    b"figure",
    b"title",
    b"hr",
    b"form",
];
/// Elements that begin and end a line.
const LINES: [&[u8]; 14] = [
    b"div",
    b"br",
    b"tr",
    b"li",
    b"dt",
    b"dd",
    b"header",
    b"footer",
    b"main",
    b"nav",
    b"aside",
    b"option",
    b"figcaption",
    b"summary",
];
/// The longest link that is written out.
const LINK_BYTES: usize = 500;

/// The text of a page, whose links are taken from `base` on.
pub(super) fn text(html: &[u8], base: Option<&Url>) -> String {
    let mut emitter = DefaultEmitter::default();
    // What is in a script is no text, whatever it looks like.
    emitter.naively_switch_states(true);
    let mut page = Page { base, ..Page::default() };
    // Reading bytes that are here cannot fail.
    for token in Tokenizer::new_with_emitter(html, emitter).flatten() {
        match token {
            Token::StartTag(tag) => page.start(&tag),
            Token::EndTag(tag) => page.end(&tag.name),
            Token::String(text) if page.unseen.is_none() => page.words(&text.value),
            Token::String(_) | Token::Comment(_) | Token::Doctype(_) | Token::Error(_) => {}
        }
    }
    page.leave_link();
    page.out
}

/// A page that is being written.
#[derive(Debug, Default)]
struct Page<'a> {
    base: Option<&'a Url>,
    out: String,
    /// Line ends before the next word.
    breaks: usize,
    /// A space before the next word.
    space: bool,
    /// What is written before the next word: the mark of a heading or an item.
    mark: &'static str,
    /// How deep in text that is written as it is.
    raw: usize,
    /// The element that is left out, and how deep in it.
    unseen: Option<(Vec<u8>, usize)>,
    /// Where the link leads that is open.
    link: Option<String>,
}

impl Page<'_> {
    fn start(&mut self, tag: &StartTag<()>) {
        let name: &[u8] = &tag.name;
        if let Some((unseen, depth)) = &mut self.unseen {
            *depth += usize::from(unseen == name && !tag.self_closing);
            return;
        }
        if UNSEEN.contains(&name) {
            if !tag.self_closing {
                self.unseen = Some((name.to_owned(), 1));
            }
            return;
        }
        self.part(name);
        let attribute = |name: &[u8]| {
            let found = tag.attributes.iter().find(|(known, _)| known.as_slice() == name);
            found.map(|(_, value)| String::from_utf8_lossy(&value.value).into_owned())
        };
        match name {
            b"h1" => self.mark = "# ",
            b"h2" => self.mark = "## ",
            b"h3" | b"h4" | b"h5" | b"h6" => self.mark = "### ",
            b"li" => self.mark = "- ",
            b"td" | b"th" if self.breaks == 0 && !self.out.is_empty() => self.mark = " | ",
            b"pre" => self.raw += 1,
            b"img" => {
                if let Some(what) = attribute(b"alt").filter(|what| !what.trim().is_empty()) {
                    self.words(format!(" [image: {}] ", what.trim()).as_bytes());
                }
            }
            b"a" => {
                self.leave_link();
                if let Some(to) = attribute(b"href").and_then(|to| self.whole(&to)) {
                    self.write("[");
                    self.link = Some(to);
                }
            }
            _ => {}
        }
    }

    fn end(&mut self, name: &[u8]) {
        if let Some((unseen, depth)) = &mut self.unseen {
            *depth -= usize::from(unseen == name);
            if *depth == 0 {
                self.unseen = None;
            }
            return;
        }
        match name {
            b"a" => self.leave_link(),
            b"pre" => self.raw = self.raw.saturating_sub(1),
            _ => {}
        }
        self.part(name);
    }

    /// What an element's beginning and end do to the lines.
    fn part(&mut self, name: &[u8]) {
        if PARAGRAPHS.contains(&name) {
            self.breaks = 2;
        } else if LINES.contains(&name) {
            self.breaks = self.breaks.max(1);
        } else {
            return;
        }
        self.leave_link();
        self.mark = "";
        self.space = false;
    }

    fn leave_link(&mut self) {
        let Some(to) = self.link.take() else { return };
        if self.out.ends_with('[') {
            // A link without words is none.
            self.out.pop();
        } else {
            self.out.push_str("](");
            self.out.push_str(&to);
            self.out.push(')');
        }
    }

    /// Where a link leads; none where it leads nowhere else.
    fn whole(&self, to: &str) -> Option<String> {
        let to = to.trim();
        if to.is_empty() || to.starts_with('#') || to.len() > LINK_BYTES {
            return None;
        }
        let url = match self.base {
            Some(base) => base.join(to).ok()?,
            None => Url::parse(to).ok()?,
        };
        matches!(url.scheme(), "http" | "https").then(|| url.to_string())
    }

    fn words(&mut self, text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        if self.raw > 0 {
            if !text.is_empty() {
                self.write("");
                self.out.push_str(&text);
            }
            return;
        }
        for (index, word) in text.split(|c: char| c.is_ascii_whitespace()).enumerate() {
            self.space |= index > 0;
            if !word.is_empty() {
                self.write(word);
            }
        }
    }

    /// Writes a word, with what has to stand before it.
    fn write(&mut self, word: &str) {
        if self.out.is_empty() {
            self.breaks = 0;
        }
        let fresh = self.breaks > 0 || self.out.is_empty();
        self.out.extend(std::iter::repeat_n('\n', std::mem::take(&mut self.breaks)));
        let mark = std::mem::take(&mut self.mark);
        self.out.push_str(mark);
        if std::mem::take(&mut self.space) && !fresh && mark.is_empty() && !self.out.ends_with('[')
        {
            self.out.push(' ');
        }
        self.out.push_str(word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_keeps_its_words_and_their_order() {
        let base = Url::parse("https://docs.example/guide/").unwrap();
        let html = "<!doctype html><html><head><title>The  guide</title><style>p{}</style>\
            <script>if (a < b) { document.write('<p>no</p>') }</script></head><body>\
            <nav><a href='/'>Home</a> <a href='#top'>Top</a><a href='x'></a></nav>\
            <h1>One &amp; two</h1><p>Some <b>bold</b>\n words,<br>a <a href='../api'>link</a>.</p>\
            <svg><text>no</text></svg><ul><li>first<li>second</ul>\
            <pre>fn a() {\n    b();\n}</pre><table><tr><td>1</td><td>2</td></tr>\
            <tr><td>3</td></tr></table><img alt='A tree' src='t.png'>\
            <a href='javascript:alert(1)'>press</a></body></html>";
        assert_eq!(
            text(html.as_bytes(), Some(&base)),
            "The guide\n\n[Home](https://docs.example/) Top\n\n# One & two\n\nSome bold words,\n\
             a [link](https://docs.example/api).\n\n- first\n- second\n\n\
             fn a() {\n    b();\n}\n\n1 | 2\n3\n\n[image: A tree] press"
        );
        assert_eq!(text(b"", None), "");
        assert_eq!(
            text(b"<a href=http://a.example>un\xffclosed", None),
            "[un\u{fffd}closed](http://a.example/)"
        );
    }
}
