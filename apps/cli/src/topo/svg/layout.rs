//! Where boxes go.

/// A size in pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Size {
    pub width: f64,
    pub height: f64,
}

/// Boxes placed in rows from left to right; a row is as high as its highest box.
pub struct Flow {
    /// Top left corners.
    pub places: Vec<(f64, f64)>,
    pub size: Size,
}

/// Places boxes in rows of at most `width_max`, `gap` apart.
pub fn flow(boxes: &[Size], gap: f64, width_max: f64) -> Flow {
    let (mut x, mut y, mut row_height) = (0.0, 0.0, 0.0_f64);
    let mut places = Vec::with_capacity(boxes.len());
    let mut width = 0.0_f64;
    for size in boxes {
        if x > 0.0 && x + size.width > width_max {
            (x, y, row_height) = (0.0, y + row_height + gap, 0.0);
        }
        places.push((x, y));
        width = width.max(x + size.width);
        x += size.width + gap;
        row_height = row_height.max(size.height);
    }
    Flow { places, size: Size { width, height: y + row_height } }
}

/// The width for which rows of these boxes come out about `ratio` times as wide as high, and no
/// row is cut where one more box would have made it even.
pub fn width_for_ratio(boxes: &[Size], gap: f64, ratio: f64) -> f64 {
    let area: f64 = boxes.iter().map(|size| (size.width + gap) * (size.height + gap)).sum();
    let widest = boxes.iter().map(|size| size.width).fold(0.0, f64::max);
    let columns = ((area * ratio).sqrt() / (widest + gap)).round().max(1.0);
    let rows = (boxes.len() as f64 / columns).ceil().max(1.0);
    let mut even_columns = (boxes.len() as f64 / rows).ceil().max(1.0);
    if even_columns > 8.0 {
        // Numbers are easier to find in rows of a round number.
        even_columns = (even_columns / 8.0).round() * 8.0;
    }
    even_columns * (widest + gap) - gap
}

#[cfg(test)]
mod tests {
    use super::*;

    const SQUARE: Size = Size { width: 10.0, height: 10.0 };

    #[test]
    fn boxes_go_in_rows() {
        let flow = flow(&[SQUARE; 3], 2.0, 25.0);
        assert_eq!(flow.places, [(0.0, 0.0), (12.0, 0.0), (0.0, 12.0)]);
        assert_eq!(flow.size, Size { width: 22.0, height: 22.0 });
    }

    #[test]
    fn four_boxes_make_a_square_and_none_make_nothing() {
        assert_eq!(width_for_ratio(&[SQUARE; 4], 2.0, 1.0), 22.0);
        assert_eq!(flow(&[], 2.0, 10.0).size, Size::default());
    }
}
