// Fetch gets a page: fetch URL.
package main

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
)

func main() {
	resp, err := http.Get(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d\nProxy-Status: %s\n%s\n", resp.StatusCode, resp.Header.Get("Proxy-Status"), body)
}
