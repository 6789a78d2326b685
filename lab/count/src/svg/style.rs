//! Colours and letters of drawings, as classes, so that a page has each once and dark pages are dark.

/// What does not depend on the ground.
pub(crate) const BOTH: &str = "\
svg text{font-family:system-ui,'DejaVu Sans',Verdana,sans-serif;font-size:11.5px}\
svg .head{font-size:17px;font-weight:600}\
svg .sub{font-size:12px}\
svg .panel{font-size:12.5px;font-weight:600}\
svg .end{text-anchor:end}\
svg .mid{text-anchor:middle}\
svg .small{font-size:9.5px}\
svg .strong{font-weight:600}\
svg .none{fill:none}\
svg .curve{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}\
svg .bold-curve{stroke-width:3.5}\
svg .dashed{stroke-dasharray:4 4}\
svg rect:hover,svg .spot:hover{opacity:.75}\
svg .ground:hover,svg .shade:hover{opacity:1}";

/// On a light ground.
pub(crate) const LIGHT: &str = "\
svg text{fill:#22272e}\
svg .ground{fill:#fff}\
svg .muted{fill:#5b6570}\
svg .grid{stroke:#e3e7eb}\
svg .axis{stroke:#9aa4ae}\
svg .mark{stroke:#5b6570}\
svg .shade{fill:#8b96a2;fill-opacity:.13}\
svg .k0{fill:#0072b2}svg .k1{fill:#56b4e9}svg .k2{fill:#009e73}\
svg .k3{fill:#cc79a7}svg .k4{fill:#e69f00}svg .k5{fill:#d55e00}\
svg .work{fill:#0072b2}svg .stall{fill:#e69f00}\
svg .other{fill:#a9b3bd}svg .ours{fill:#0072b2}svg .whisker{stroke:#22272e}\
svg .own{fill:#f4f5f7;stroke:#c3cad1}\
svg .h0{fill:#f4f5f7}svg .h1{fill:#dbe9f6}svg .h2{fill:#bcd7ec}svg .h3{fill:#91c0e0}\
svg .h4{fill:#60a3d0}svg .h5{fill:#3884bd}svg .h6{fill:#1b65a6}svg .h7{fill:#0b478a}svg .h8{fill:#08306b}\
svg .on5,svg .on6,svg .on7,svg .on8{fill:#fff}\
svg .p0{stroke:#22272e}svg .p1{stroke:#e69f00}svg .p2{stroke:#56b4e9}\
svg .p3{stroke:#cc79a7}svg .p4{stroke:#009e73}svg .p5{stroke:#0072b2}svg .p6{stroke:#d55e00}\
svg .d0{fill:#22272e}svg .d1{fill:#e69f00}svg .d2{fill:#56b4e9}\
svg .d3{fill:#cc79a7}svg .d4{fill:#009e73}svg .d5{fill:#0072b2}svg .d6{fill:#d55e00}";

/// On a dark ground. The map is dark where little is asked and light where much is.
pub(crate) const DARK: &str = "\
svg text{fill:#e4e7ea}\
svg .ground{fill:#16191d}\
svg .muted{fill:#9ba6b1}\
svg .grid{stroke:#2c323a}\
svg .axis{stroke:#67717c}\
svg .mark{stroke:#9ba6b1}\
svg .k0{fill:#2f8fd0}svg .k1{fill:#8fd0f5}svg .k2{fill:#1fb88c}\
svg .k3{fill:#dd9abf}svg .k4{fill:#f0b428}svg .k5{fill:#e87a2c}\
svg .work{fill:#2f8fd0}svg .stall{fill:#f0b428}\
svg .other{fill:#5f6a76}svg .ours{fill:#2f8fd0}svg .whisker{stroke:#e4e7ea}\
svg .own{fill:#20252b;stroke:#4a545f}\
svg .h0{fill:#20252b}svg .h1{fill:#17324d}svg .h2{fill:#1b4468}svg .h3{fill:#205a88}\
svg .h4{fill:#2b74ab}svg .h5{fill:#4391c9}svg .h6{fill:#6fb1de}svg .h7{fill:#a3d0ee}svg .h8{fill:#dcf0fc}\
svg .on5,svg .on6,svg .on7,svg .on8{fill:#10141a}\
svg .p0{stroke:#e4e7ea}svg .p1{stroke:#f0b428}svg .p2{stroke:#8fd0f5}\
svg .p3{stroke:#dd9abf}svg .p4{stroke:#1fb88c}svg .p5{stroke:#2f8fd0}svg .p6{stroke:#e87a2c}\
svg .d0{fill:#e4e7ea}svg .d1{fill:#f0b428}svg .d2{fill:#8fd0f5}\
svg .d3{fill:#dd9abf}svg .d4{fill:#1fb88c}svg .d5{fill:#2f8fd0}svg .d6{fill:#e87a2c}";
