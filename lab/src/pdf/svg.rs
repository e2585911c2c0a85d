//! Drawings in SVG on a page of a document. It knows what this program's charts consist of, and
//! refuses everything else, so that nothing of a picture is left out unnoticed.

use pdf_writer::Content;
use roxmltree::{Document, Node};
use thiserror::Error;

use super::font::{Font, width};
use super::page::show;

/// Why a drawing cannot be put on a page.
#[derive(Debug, Error)]
pub(crate) enum SvgError {
    /// It is no XML.
    #[error("the drawing cannot be read: {0}")]
    Xml(#[from] roxmltree::Error),
    /// It has a part that is not known.
    #[error("the drawing has a part that cannot be drawn: <{0}>")]
    Element(String),
    /// An attribute is missing or is not understood.
    #[error("the drawing has a <{element}> whose `{attribute}` is missing or not understood")]
    Attribute {
        /// The part.
        element: String,
        /// Its attribute.
        attribute: &'static str,
    },
}

/// A drawing that has been read.
#[derive(Debug)]
pub(crate) struct Drawing<'a> {
    document: Document<'a>,
    /// Width and height in units of the drawing.
    size: (f32, f32),
}

impl<'a> Drawing<'a> {
    /// Reads a drawing.
    ///
    /// # Errors
    /// If it is none, or does not say how large it is.
    pub(crate) fn read(svg: &'a str) -> Result<Self, SvgError> {
        let document = Document::parse(svg)?;
        let root = document.root_element();
        let numbers: Vec<f32> = text_of(root, "viewBox")?
            .split_whitespace()
            .filter_map(|number| number.parse().ok())
            .collect();
        let [_, _, width, height] = numbers[..] else { return Err(wrong(root, "viewBox")) };
        Ok(Self { size: (width, height), document })
    }

    /// Height over width.
    pub(crate) fn ratio(&self) -> f32 {
        self.size.1 / self.size.0.max(1.0)
    }

    /// Draws it with its lower left corner here, so wide.
    ///
    /// # Errors
    /// If it has a part that cannot be drawn.
    pub(crate) fn draw(
        &self,
        content: &mut Content,
        (x, y): (f32, f32),
        width: f32,
    ) -> Result<(), SvgError> {
        let scale = width / self.size.0.max(1.0);
        content.save_state();
        // Downwards, as SVG has it.
        content.transform([scale, 0.0, 0.0, -scale, x, y + self.size.1 * scale]);
        for part in self.document.root_element().children().filter(Node::is_element) {
            draw_part(content, part)?;
        }
        content.restore_state();
        Ok(())
    }
}

fn draw_part(content: &mut Content, part: Node<'_, '_>) -> Result<(), SvgError> {
    match part.tag_name().name() {
        "rect" => {
            let side = |name| number(part, name);
            let (x, y, width, height) = (side("x")?, side("y")?, side("width")?, side("height")?);
            paint(content, part, |content| {
                content.rect(x, y, width, height);
            })
        }
        "line" => {
            let end = |name| number(part, name);
            let points = [(end("x1")?, end("y1")?), (end("x2")?, end("y2")?)];
            paint(content, part, |content| path(content, &points))
        }
        "polyline" => {
            let points = points(part)?;
            paint(content, part, |content| path(content, &points))
        }
        "polygon" => {
            let points = points(part)?;
            paint(content, part, |content| {
                path(content, &points);
                content.close_path();
            })
        }
        "circle" => {
            let (x, y, r) = (number(part, "cx")?, number(part, "cy")?, number(part, "r")?);
            paint(content, part, |content| circle(content, (x, y), r))
        }
        "text" => draw_text(content, part),
        other => Err(SvgError::Element(other.to_owned())),
    }
}

/// Fills and strokes a shape as its attributes say.
fn paint(
    content: &mut Content,
    part: Node<'_, '_>,
    shape: impl Fn(&mut Content),
) -> Result<(), SvgError> {
    if let Some([r, g, b]) = color(part, "fill")? {
        content.set_fill_rgb(r, g, b);
        shape(content);
        content.fill_nonzero();
    }
    if let Some([r, g, b]) = color(part, "stroke")? {
        let width =
            part.attribute("stroke-width").map_or(Ok(1.0), |_| number(part, "stroke-width"));
        content.set_stroke_rgb(r, g, b).set_line_width(width?);
        shape(content);
        content.stroke();
    }
    Ok(())
}

fn path(content: &mut Content, points: &[(f32, f32)]) {
    for (n, &(x, y)) in points.iter().enumerate() {
        if n == 0 {
            content.move_to(x, y);
        } else {
            content.line_to(x, y);
        }
    }
}

/// Four curves, with the usual distance of their control points.
fn circle(content: &mut Content, (x, y): (f32, f32), r: f32) {
    let k = r * 0.552_284_8;
    content.move_to(x + r, y);
    content.cubic_to(x + r, y + k, x + k, y + r, x, y + r);
    content.cubic_to(x - k, y + r, x - r, y + k, x - r, y);
    content.cubic_to(x - r, y - k, x - k, y - r, x, y - r);
    content.cubic_to(x + k, y - r, x + r, y - k, x + r, y);
    content.close_path();
}

fn draw_text(content: &mut Content, part: Node<'_, '_>) -> Result<(), SvgError> {
    let (x, y, size) = (number(part, "x")?, number(part, "y")?, number(part, "font-size")?);
    let words: String = part.descendants().filter(Node::is_text).filter_map(|n| n.text()).collect();
    let words = words.trim();
    let bold = part.attribute("font-weight") == Some("bold");
    let face = if bold { Font::Bold } else { Font::Plain };
    let wide = width(words, face, size);
    let left = match part.attribute("text-anchor") {
        None | Some("start") => 0.0,
        Some("middle") => -wide / 2.0,
        Some("end") => -wide,
        Some(_) => return Err(wrong(part, "text-anchor")),
    };
    let down = match part.attribute("dy") {
        None => 0.0,
        Some("0.76em") => 0.76 * size,
        // The height of an x is half of the size, about.
        Some("0.5ex") => 0.26 * size,
        Some("-0.5ex") => -0.26 * size,
        Some(_) => return Err(wrong(part, "dy")),
    };
    let turn = match part.attribute("transform") {
        None => 0.0,
        Some(turn) => angle(turn).ok_or_else(|| wrong(part, "transform"))?,
    };
    let Some([r, g, b]) = color(part, "fill")? else { return Ok(()) };
    let (sin, cos) = turn.to_radians().sin_cos();
    content.save_state().set_fill_rgb(r, g, b);
    content.transform([cos, sin, -sin, cos, x, y]);
    // Letters stand upright on a page, whose axis goes upwards.
    content.transform([1.0, 0.0, 0.0, -1.0, left, down]);
    show(content, words, face, size, (0.0, 0.0));
    content.restore_state();
    Ok(())
}

/// The degrees of `rotate(270, 3, 4)`, where the centre is the text's place.
fn angle(transform: &str) -> Option<f32> {
    transform.strip_prefix("rotate(")?.split([',', ')']).next()?.trim().parse().ok()
}

fn wrong(part: Node<'_, '_>, attribute: &'static str) -> SvgError {
    SvgError::Attribute { element: part.tag_name().name().to_owned(), attribute }
}

fn text_of<'a>(part: Node<'a, '_>, name: &'static str) -> Result<&'a str, SvgError> {
    part.attribute(name).ok_or_else(|| wrong(part, name))
}

fn number(part: Node<'_, '_>, name: &'static str) -> Result<f32, SvgError> {
    let value = text_of(part, name)?.parse().ok().filter(|value: &f32| value.is_finite());
    value.ok_or_else(|| wrong(part, name))
}

fn points(part: Node<'_, '_>) -> Result<Vec<(f32, f32)>, SvgError> {
    let pair = |pair: &str| {
        let (x, y) = pair.split_once(',')?;
        Some((x.parse().ok()?, y.parse().ok()?))
    };
    let pairs: Option<Vec<_>> = text_of(part, "points")?.split_whitespace().map(pair).collect();
    pairs.ok_or_else(|| wrong(part, "points"))
}

/// A colour as it is on white paper, `None` for none.
fn color(part: Node<'_, '_>, name: &'static str) -> Result<Option<[f32; 3]>, SvgError> {
    let Some(text) = part.attribute(name).filter(|text| *text != "none") else { return Ok(None) };
    let hex = text.strip_prefix('#').filter(|hex| hex.len() == 6);
    let value = hex.and_then(|hex| u32::from_str_radix(hex, 16).ok());
    let value = value.ok_or_else(|| wrong(part, name))?;
    let opacity = part.attribute("opacity").map_or(Ok(1.0), |_| number(part, "opacity"))?;
    let [_, r, g, b] = value.to_be_bytes();
    Ok(Some([r, g, b].map(|part| f32::from(part) / 255.0 * opacity + 1.0 - opacity)))
}

#[cfg(test)]
mod tests {
    use xsched_sim::report::{Bar, Bars, Chart, Line, Plot, charts_svg};

    use super::*;

    fn drawn(svg: &str) -> Result<String, SvgError> {
        let mut content = Content::new();
        Drawing::read(svg)?.draw(&mut content, (0.0, 0.0), 100.0)?;
        Ok(String::from_utf8_lossy(&content.finish()).into_owned())
    }

    fn around(parts: &str) -> String {
        format!("<svg viewBox=\"0 0 10 10\">{parts}</svg>")
    }

    #[test]
    fn all_parts_of_charts_are_drawn() {
        let lines = vec![
            Line::new("one ≤ two", vec![(0.0, 1.0), (1.0, 2.0)]).dotted(),
            Line::new("dashed", vec![(0.0, 2.0), (1.0, 2.0)]).styled(7),
            Line::marks("marks", &[(1.0, 1.0)]),
        ];
        let bar = Bar::new("bar", vec![Some(1.0)], &["2"]).beside(vec![Some(0.5)]);
        let mut bars = Bars::new(vec!["group".into()], vec![bar]);
        bars.line = Some(("goal".into(), 1.5));
        let plots = [Plot::Lines(lines), Plot::Bars(bars)];
        let chart = |plot| Chart { name: "c", title: "title".into(), x: "x", y: "time (ms)", plot };
        let svg = charts_svg(&plots.map(chart)).unwrap();
        let text = drawn(&svg).unwrap();
        for part in ["(title)", "(time (ms))", "(one )", "( two)", "(goal)", " re\n", " c\n"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn what_cannot_be_drawn_is_named() {
        let error = drawn(&around("<image/>")).unwrap_err();
        assert!(error.to_string().contains("<image>"), "{error}");
        for part in [
            "<rect x=\"0\" y=\"0\" width=\"1\"/>",
            "<circle cx=\"1\" cy=\"1\" r=\"big\"/>",
            "<polyline points=\"1 2\"/>",
            "<text x=\"1\" y=\"1\" font-size=\"3\" fill=\"red\">a</text>",
        ] {
            assert!(matches!(drawn(&around(part)), Err(SvgError::Attribute { .. })), "{part}");
        }
        assert!(matches!(drawn("<svg/>"), Err(SvgError::Attribute { .. })));
        assert!(matches!(drawn("nothing"), Err(SvgError::Xml(_))));
    }

    #[test]
    fn colours_are_those_on_white() {
        let part =
            "<rect x=\"0\" y=\"0\" width=\"1\" height=\"1\" fill=\"#000000\" opacity=\"0.25\"/>";
        assert!(drawn(&around(part)).unwrap().contains("0.75 0.75 0.75 rg"));
    }
}
