//! Reads the rows of a distance matrix, and says of a number that cannot be where it stands.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, SeqAccess, Unexpected, Visitor};

use crate::Distance;

/// For `#[serde(deserialize_with)]`.
pub(crate) fn read_rows<'de, D>(deserializer: D) -> Result<Vec<Vec<Distance>>, D::Error>
where
    D: Deserializer<'de>,
{
    deserializer.deserialize_seq(Rows)
}

struct Rows;

impl<'de> Visitor<'de> for Rows {
    type Value = Vec<Vec<Distance>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of rows of distances")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut rows = Vec::new();
        while let Some(row) = list.next_element_seed(Row { row: rows.len() })? {
            rows.push(row);
        }
        Ok(rows)
    }
}

#[derive(Clone, Copy)]
struct Row {
    row: usize,
}

impl<'de> DeserializeSeed<'de> for Row {
    type Value = Vec<Distance>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Row {
    type Value = Vec<Distance>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list as row {} of the distances", self.row)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut cells = Vec::new();
        while let Some(cell) =
            list.next_element_seed(Cell { row: self.row, column: cells.len() })?
        {
            cells.push(cell);
        }
        Ok(cells)
    }
}

struct Cell {
    row: usize,
    column: usize,
}

impl<'de> DeserializeSeed<'de> for Cell {
    type Value = Distance;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Distance, D::Error> {
        deserializer.deserialize_u8(self)
    }
}

impl Visitor<'_> for Cell {
    type Value = Distance;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { row, column } = self;
        write!(f, "a whole number from 10 to 255 as the distance in row {row}, column {column}")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Distance, E> {
        let distance = u8::try_from(number).map(Distance);
        distance.map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Distance, E> {
        let distance = u8::try_from(number).map(Distance);
        distance.map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))
    }
}

#[cfg(test)]
mod tests {
    use crate::{Machine, SyntheticSpec};

    #[test]
    fn what_is_no_distance_is_refused_with_its_place() {
        let good = serde_json::to_string(&SyntheticSpec::uniform(2, 2).machine().unwrap()).unwrap();
        let rows = "[[10,20],[20,10]]";
        assert!(good.contains(rows), "{good}");
        for (bad, found) in [
            ("[[10,20],[-20,10]]", "integer `-20`"),
            ("[[10,20],[20.5,10]]", "floating point `20.5`"),
            ("[[10,20],[1000,10]]", "integer `1000`"),
            ("[[10,20],[null,10]]", "null"),
            ("[[10,20],[\"20\",10]]", "string \"20\""),
        ] {
            let error = serde_json::from_str::<Machine>(&good.replace(rows, bad)).unwrap_err();
            let error = error.to_string();
            let place = "expected a whole number from 10 to 255 as the distance in row 1, column 0";
            assert!(error.contains(place) && error.contains(found), "{error}");
        }
        for (bad, place) in [("[[10,20],20]", "a list as row 1"), ("20", "a list of rows")] {
            let error = serde_json::from_str::<Machine>(&good.replace(rows, bad)).unwrap_err();
            assert!(error.to_string().contains(place), "{error}");
        }
    }
}
