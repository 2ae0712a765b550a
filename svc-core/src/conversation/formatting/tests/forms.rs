//! Table of GFM texts with their expected trees.

use serde_json::{Value, json};

use super::{ADA, BOB, ODD, formatted};

fn t(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn code(text: &str) -> Value {
    json!({"type": "code", "text": text})
}

fn block(language: &str, text: &str) -> Value {
    json!({"type": "code_block", "language": language, "text": text})
}

fn informed(language: &str, info: &str, text: &str) -> Value {
    json!({"type": "code_block", "language": language, "info": info, "text": text})
}

fn mention(text: &str, member: &str) -> Value {
    json!({"type": "mention", "text": text, "member": member})
}

fn link<const N: usize>(href: &str, children: [Value; N]) -> Value {
    json!({"type": "link", "href": href, "children": children.as_slice()})
}

fn of<const N: usize>(kind: &str, children: [Value; N]) -> Value {
    json!({"type": kind, "children": children.as_slice()})
}

fn p<const N: usize>(children: [Value; N]) -> Value {
    of("paragraph", children)
}

fn item<const N: usize>(children: [Value; N]) -> Value {
    of("item", children)
}

fn task<const N: usize>(checked: bool, children: [Value; N]) -> Value {
    json!({"type": "item", "checked": checked, "children": children.as_slice()})
}

fn table(align: Value, rows: &[&[Value]]) -> Value {
    let cells = |cells: &&[Value]| json!({"type": "row", "children": cells});
    json!({"type": "table", "align": align, "children": rows.iter().map(cells).collect::<Vec<_>>()})
}

fn cell<const N: usize>(children: [Value; N]) -> Value {
    of("cell", children)
}

/// A test case: a text, and its expected tree.
type Form = (&'static str, Vec<Value>);

fn blocks() -> Vec<Form> {
    let none = || json!(["none"]);
    let br = || json!({"type": "break"});
    let rule = || json!({"type": "rule"});
    let head = |name: &str| [cell([t(name)])];
    vec![
        (
            "| a | b | c |\n|:--|:-:|--:|\n| 1 | **2** |",
            vec![table(
                json!(["left", "center", "right"]),
                &[
                    &[cell([t("a")]), cell([t("b")]), cell([t("c")])],
                    &[cell([t("1")]), cell([of("strong", [t("2")])]), cell([])],
                ],
            )],
        ),
        (
            "| a |\n|---|\n| x \\| `y \\| z` |",
            vec![table(none(), &[&head("a"), &[cell([t("x | "), code("y | z")])]])],
        ),
        (
            "|a|\n|-|\n|@ada|\n| mail ada@x.example |\n\nend",
            vec![
                table(
                    none(),
                    &[
                        &head("a"),
                        &[cell([mention("@ada", ADA)])],
                        &[cell([t("mail "), link("mailto:ada@x.example", [t("ada@x.example")])])],
                    ],
                ),
                p([t("end")]),
            ],
        ),
        ("|a|\n|b|", vec![p([t("|a|"), br(), t("|b|")])]),
        (
            "- [x] done @ada\n- [ ] ~~not~~ ~so~\n- [] plain",
            vec![of(
                "list",
                [
                    task(true, [t("done "), mention("@ada", ADA)]),
                    task(false, [of("strike", [t("not")]), t(" "), of("strike", [t("so")])]),
                    item([t("[] plain")]),
                ],
            )],
        ),
        (
            "3. a\n\n   ```rust,ignore\n   fn main() {\n       @ada();\n   }\n\n   ```\n4. b",
            vec![json!({"type": "list", "start": 3, "children": [
                item([p([t("a")]), block("rust,ignore", "fn main() {\n    @ada();\n}\n")]),
                item([p([t("b")])]),
            ]})],
        ),
        (
            "- a\n  - b\n\n          two  spaces\n",
            vec![of("list", [item([t("a"), of("list", [item([p([t("b")]), block("", "  two  spaces")])])])])],
        ),
        ("```\n\n x \n```", vec![block("", "\n x ")]),
        (
            "> quoted @ada\n> > `@ada`\n\n@bob",
            vec![
                of("quote", [p([t("quoted @ada")]), of("quote", [p([code("@ada")])])]),
                p([mention("@bob", BOB)]),
            ],
        ),
        (
            "# A *b*\n***\nC\n=",
            vec![
                json!({"type": "heading", "level": 1, "children": [t("A "), of("em", [t("b")])]}),
                rule(),
                json!({"type": "heading", "level": 1, "children": [t("C")]}),
            ],
        ),
        ("a  \nb\\\nc\nd", vec![p([t("a"), br(), t("b"), br(), t("c"), br(), t("d")])]),
        (
            "<div>\n  <b>@ada</b>\n</div>\n\na <i>@ada</i> <!-- x -->",
            vec![
                p([t("<div>"), br(), t("  <b>@ada</b>"), br(), t("</div>")]),
                p([t("a <i>"), mention("@ada", ADA), t("</i> <!-- x -->")]),
            ],
        ),
    ]
}

fn inlines() -> Vec<Form> {
    let br = || json!({"type": "break"});
    let x = |text: &str| link("https://x.example/", [t(text)]);
    vec![
        (
            "https://x.example/a_b_c?d=(e). (www.x.example/f), HTTP://X.example!",
            vec![p([
                link("https://x.example/a_b_c?d=(e)", [t("https://x.example/a_b_c?d=(e)")]),
                t(". ("),
                link("http://www.x.example/f", [t("www.x.example/f")]),
                t("), "),
                link("http://x.example/", [t("HTTP://X.example")]),
                t("!"),
            ])],
        ),
        (
            "见https://x.example，和（https://x.example）「www.x.example」！",
            vec![p([
                t("见"),
                x("https://x.example"),
                t("，和（"),
                x("https://x.example"),
                t("）「"),
                link("http://www.x.example/", [t("www.x.example")]),
                t("」！"),
            ])],
        ),
        (
            "https://x.example/?a&amp;b=c&amp; https://x.example&copy; [https://x.example] \
             xhttps://x.example",
            vec![p([
                link("https://x.example/?a&b=c", [t("https://x.example/?a&b=c")]),
                t("& "),
                x("https://x.example"),
                t("© ["),
                x("https://x.example"),
                t("] xhttps://x.example"),
            ])],
        ),
        (
            "a.b-c_d@x.example. ada@x, @@ada@x.example -@x.example_ bob@x.example!",
            vec![p([
                link("mailto:a.b-c_d@x.example", [t("a.b-c_d@x.example")]),
                t(". ada@x, @@ada@x.example -@x.example_ "),
                link("mailto:bob@x.example", [t("bob@x.example")]),
                t("!"),
            ])],
        ),
        (
            "**https://x.example** `https://x.example` \"https://x.example\" <https://x.example> \
             <a@x.example>",
            vec![p([
                of("strong", [x("https://x.example")]),
                t(" "),
                code("https://x.example"),
                t(" \""),
                x("https://x.example"),
                t("\" "),
                x("https://x.example"),
                t(" "),
                link("mailto:a@x.example", [t("a@x.example")]),
            ])],
        ),
        (
            "svc://threads/1#sha256:2, [it](svc:event/12)",
            vec![p([
                link("svc://threads/1#sha256:2", [t("svc://threads/1#sha256:2")]),
                t(", "),
                link("svc:event/12", [t("it")]),
            ])],
        ),
        (
            "[a](https://x.example/(b) \"title\") [**c** @ada https://x.example](https://x.example) [](www)",
            vec![p([
                link("https://x.example/(b)", [t("a")]),
                t(" "),
                link(
                    "https://x.example/",
                    [of("strong", [t("c")]), t(" "), mention("@ada", ADA), t(" https://x.example")],
                ),
                t(" [](www)"),
            ])],
        ),
        (
            "[a](javascript:alert(1)) [*b*](/ui/ \"t\") [@ada](data:x) <vbscript:x> \
             [c][d]\n\n[d]: JavaScript:x",
            vec![
                p([
                    t("[a](javascript:alert(1)) ["),
                    of("em", [t("b")]),
                    t("](/ui/ \"t\") ["),
                    mention("@ada", ADA),
                    t("](data:x) <vbscript:x> [c][d]"),
                ]),
                p([t("[d]: JavaScript:x")]),
            ],
        ),
        (
            "[a](java&#10;script:x) [b](https://user:pw@x.example) [c](https://user@x.example) \
             [d](//x.example)",
            vec![p([t(
                "[a](java&#10;script:x) [b](https://user:pw@x.example) [c](https://user@x.example) \
                   [d](//x.example)",
            )])],
        ),
        (
            "https://user@x.example/ and https://bücher.example/ü [](https://x.example)",
            vec![p([
                t("https://user@x.example/ and "),
                link("https://xn--bcher-kva.example/%C3%BC", [t("https://bücher.example/ü")]),
                t(" "),
                x("https://x.example/"),
            ])],
        ),
        (
            "![a *b*](https://x.example) ![](https://x.example) ![c](c.png) [![d](d.png)](https://x.example) \
             [![e](https://x.example/e)](https://x.example)",
            vec![p([
                link("https://x.example/", [t("a "), of("em", [t("b")])]),
                t(" "),
                x("https://x.example/"),
                t(" ![c](c.png) "),
                x("![d](d.png)"),
                t(" "),
                x("e"),
            ])],
        ),
        (
            "&lt;b&gt; &amp;amp; &#65; \\*a\\* \\@ada \\`b` &nosuch;",
            vec![p([t("<b> &amp; A *a* @ada `b` &nosuch;")])],
        ),
        (
            "@ada's *@bob* **x**@ada (@ada), cc/@bob ~~@ada~~ a@ada @adam\n@ada",
            vec![p([
                mention("@ada", ADA),
                t("'s "),
                of("em", [mention("@bob", BOB)]),
                t(" "),
                of("strong", [t("x")]),
                t("@ada ("),
                mention("@ada", ADA),
                t("), cc/"),
                mention("@bob", BOB),
                t(" "),
                of("strike", [mention("@ada", ADA)]),
                t(" a@ada @adam"),
                br(),
                mention("@ada", ADA),
            ])],
        ),
        (
            "@a*b*c, @a\\*b\\*c @here ＠Ada @nobody",
            vec![p([
                mention("@a*b*c", ODD),
                t(", "),
                mention("@a\\*b\\*c", ODD),
                t(" "),
                json!({"type": "mention", "text": "@here"}),
                t(" "),
                mention("＠Ada", ADA),
                t(" @nobody"),
            ])],
        ),
        (
            "*a **b ~~c~~*** ``d ` e`` _f_g_h_ **",
            vec![p([
                of("em", [t("a "), of("strong", [t("b "), of("strike", [t("c")])])]),
                t(" "),
                code("d ` e"),
                t(" "),
                of("em", [t("f_g_h")]),
                t(" **"),
            ])],
        ),
        (
            "https://x.example/@ada @ada",
            vec![p([
                link("https://x.example/@ada", [t("https://x.example/@ada")]),
                t(" "),
                mention("@ada", ADA),
            ])],
        ),
        ("[^1] [!NOTE] $x$ :tada: ==x== H~2~O", vec![p([t("[^1] [!NOTE] $x$ :tada: ==x== H~2~O")])]),
        ("[a]: https://x.example 'b'\n", vec![p([t("[a]: https://x.example 'b'")])]),
        ("\n \n", vec![]),
        (
            "blob:http://x.example a:https://x.example 见:https://x.example svc:http://x.example",
            vec![p([
                t("blob:http://x.example a:https://x.example 见:"),
                x("https://x.example"),
                t(" svc:http://x.example"),
            ])],
        ),
    ]
}

/// Texts with source that CommonMark does not display. The tree must display this source, because agents read
/// it.
fn hidden() -> Vec<Form> {
    let head = |name: &str| [cell([t(name)])];
    let none = || json!(["none"]);
    vec![
        (
            "```rust  ignore this \nx\n```\n~~~ a\n~~~",
            vec![informed("rust", "rust  ignore this", "x"), block("a", "")],
        ),
        ("```sh\nrm -rf /\necho ok\n```", vec![block("sh", "rm -rf /\necho ok")]),
        ("    a\n    b", vec![block("", "a\nb")]),
        ("`a\nb`", vec![p([code("a b")])]),
        (
            "[rm]: http://x.example/ \"reject\"\n[rm]: <rm> 'twice'\nok",
            vec![p([t("[rm]: http://x.example/ \"reject\"\n[rm]: <rm> 'twice'")]), p([t("ok")])],
        ),
        (
            "a\n\n> [b]: c\n> [d]: e\n>\n> f\n>\n> [g]: h\n\n[i]: j",
            vec![
                p([t("a")]),
                of("quote", [p([t("[b]: c\n> [d]: e")]), p([t("f")]), p([t("[g]: h")])]),
                p([t("[i]: j")]),
            ],
        ),
        (
            "- [a]: b\n- [c]: d\n  e\n- [ ] [f]: g\n",
            vec![of(
                "list",
                [item([p([t("[a]: b")])]), item([p([t("[c]: d")]), t("e")]), task(false, [t("[f]: g")])],
            )],
        ),
        (
            "- [x] a\n\n- [ ] b\n\n  [c]: d\n",
            vec![of("list", [task(true, [p([t("a")])]), task(false, [p([t("b")]), p([t("[c]: d")])])])],
        ),
        (
            "| a |\n|-|\n| b | rm -rf / | @ada\n| c | |\n|d",
            vec![table(none(), &[&head("a"), &[cell([t("b | rm -rf / | @ada")])], &head("c"), &head("d")])],
        ),
        ("\u{c}|a|b|\n|-|-|\n", vec![table(json!(["none", "none"]), &[&[cell([]), cell([t("a|b|")])]])]),
        (
            "> |a|b|\n> |-|-|\n> |`c`||d|\n",
            vec![of(
                "quote",
                [table(
                    json!(["none", "none"]),
                    &[&[cell([t("a")]), cell([t("b")])], &[cell([code("c")]), cell([t("|d|")])]],
                )],
            )],
        ),
    ]
}

#[test]
fn forms_of_gfm_give_their_trees_whatever_ends_their_lines() {
    let forms = [blocks(), inlines(), hidden()].concat();
    assert!(forms.len() >= 40);
    let differs = |(text, wanted): &Form| {
        let made = serde_json::to_value(formatted(text)).unwrap();
        let ends_otherwise = |end: &str| formatted(&text.replace('\n', end)) != formatted(text);
        if ends_otherwise("\r") || ends_otherwise("\r\n") {
            return Some(format!("{text}\n  differs with \\r\n"));
        }
        (made != json!(wanted)).then(|| format!("{text}\n  wanted {}\n  is     {made}\n", json!(wanted)))
    };
    let findings: Vec<String> = forms.iter().filter_map(differs).collect();
    assert!(findings.is_empty(), "\n{}", findings.join("\n"));
}
