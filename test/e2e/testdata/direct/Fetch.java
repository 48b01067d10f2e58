import java.net.ProxySelector;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

/** Fetch URL: gets a page by a client whose ProxySelector knows no proxy. */
public class Fetch {
    public static void main(String[] args) throws Exception {
        var client = HttpClient.newBuilder().proxy(ProxySelector.of(null)).build();
        var response = client.send(HttpRequest.newBuilder(URI.create(args[0])).build(), HttpResponse.BodyHandlers.ofString());
        System.out.printf("%d%nProxy-Status: %s%n%s%n", response.statusCode(),
            response.headers().firstValue("Proxy-Status").orElse(null), response.body());
    }
}
