package trial;

import java.io.ByteArrayInputStream;
import java.nio.charset.StandardCharsets;
import javax.xml.parsers.DocumentBuilderFactory;
import org.w3c.dom.Node;

/** The seed's two services: a light one that computes, and a heavy one that parses a document and searches it. */
public final class Services {
    private static final int FIBONACCI_OF = 27;
    private static final byte[] DOCUMENT = document(3000);

    private Services() {}

    public static String light() {
        return "fibonacci " + fibonacci(FIBONACCI_OF);
    }

    private static int fibonacci(int n) {
        return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
    }

    public static String heavy() {
        try {
            var builder = DocumentBuilderFactory.newInstance().newDocumentBuilder();
            Node root = builder.parse(new ByteArrayInputStream(DOCUMENT)).getDocumentElement();
            return "found " + count(root, "freight 7");
        } catch (Exception thrown) {
            throw new IllegalStateException(thrown);
        }
    }

    private static int count(Node node, String wanted) {
        int nr = node.getNodeType() == Node.TEXT_NODE && node.getNodeValue().contains(wanted) ? 1 : 0;
        for (Node child = node.getFirstChild(); child != null; child = child.getNextSibling()) {
            nr += count(child, wanted);
        }
        return nr;
    }

    private static byte[] document(int nrOffers) {
        StringBuilder text = new StringBuilder("<offers>");
        for (int offer = 0; offer < nrOffers; offer++) {
            text.append("<offer id=\"").append(offer).append("\"><from>here</from><load>freight ")
                    .append(offer % 10).append("</load></offer>");
        }
        return text.append("</offers>").toString().getBytes(StandardCharsets.UTF_8);
    }
}
