// Fetch gets a page by a transport that has no Proxy: fetch URL.
package main

import (
	"log"
	"net/http"
	"os"
)

func main() {
	client := http.Client{Transport: &http.Transport{}}
	resp, err := client.Get(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	if err := resp.Write(os.Stdout); err != nil {
		log.Fatal(err)
	}
}
