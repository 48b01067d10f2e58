import java.net.HttpURLConnection;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

/** Fetch URLConnection|HttpClient URL: gets a page by either of Java's own clients. */
public class Fetch {
    public static void main(String[] args) throws Exception {
        URI uri = URI.create(args[1]);
        switch (args[0]) {
            case "URLConnection" -> byURLConnection(uri);
            case "HttpClient" -> byHttpClient(uri);
            default -> throw new IllegalArgumentException(args[0]);
        }
    }

    private static void byURLConnection(URI uri) throws Exception {
        var connection = (HttpURLConnection) uri.toURL().openConnection();
        int status = connection.getResponseCode();
        try (var body = status < 400 ? connection.getInputStream() : connection.getErrorStream()) {
            show(status, connection.getHeaderField("Proxy-Status"), new String(body.readAllBytes()));
        }
    }

    private static void byHttpClient(URI uri) throws Exception {
        var response = HttpClient.newHttpClient().send(HttpRequest.newBuilder(uri).build(), HttpResponse.BodyHandlers.ofString());
        show(response.statusCode(), response.headers().firstValue("Proxy-Status").orElse(null), response.body());
    }

    private static void show(int status, String proxyStatus, String body) {
        System.out.printf("%d%nProxy-Status: %s%n%s%n", status, proxyStatus, body);
    }
}
