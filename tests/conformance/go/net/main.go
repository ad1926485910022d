// SPDX-License-Identifier: MIT

// Command net uses TCP, UDP and HTTP over loopback with itself.
package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

func mustSucceed(err error) {
	if err != nil {
		fmt.Println("BAD", err)
		os.Exit(1)
	}
}

func serveEcho(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			io.Copy(conn, conn)
		}()
	}
}

func runClient(address string, id int) bool {
	conn, err := net.Dial("tcp", address)
	mustSucceed(err)
	defer conn.Close()
	data := bytes.Repeat([]byte{byte(id), 1, 2, 3}, 50000)
	go func() {
		conn.Write(data)
		conn.(*net.TCPConn).CloseWrite()
	}()
	back, err := io.ReadAll(conn)
	mustSucceed(err)
	return bytes.Equal(data, back)
}

func checkDeadline(address string) bool {
	conn, err := net.Dial("tcp", address)
	mustSucceed(err)
	defer conn.Close()
	mustSucceed(conn.SetReadDeadline(time.Now().Add(30 * time.Millisecond)))
	_, err = conn.Read(make([]byte, 1))
	timeout, ok := err.(net.Error)
	return ok && timeout.Timeout()
}

func checkHTTP() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	mustSucceed(err)
	mux := http.NewServeMux()
	mux.HandleFunc("/add", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s got %d bytes, %s", r.Method, len(body), r.URL.Query().Get("q"))
	})
	server := &http.Server{Handler: mux}
	go server.Serve(listener)
	url := "http://" + listener.Addr().String() + "/add?q=x%20y"
	for range 5 {
		reply, err := http.Post(url, "text/plain", bytes.NewReader(make([]byte, 100000)))
		mustSucceed(err)
		text, err := io.ReadAll(reply.Body)
		mustSucceed(err)
		reply.Body.Close()
		fmt.Println(reply.StatusCode, string(text))
	}
	mustSucceed(server.Close())
}

func checkDatagrams() {
	a, err := net.ListenPacket("udp", "127.0.0.1:0")
	mustSucceed(err)
	b, err := net.Dial("udp", a.LocalAddr().String())
	mustSucceed(err)
	_, err = b.Write([]byte("datagram"))
	mustSucceed(err)
	buf := make([]byte, 100)
	n, from, err := a.ReadFrom(buf)
	mustSucceed(err)
	fmt.Println("udp", string(buf[:n]), from.String() == b.LocalAddr().String())
}

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	mustSucceed(err)
	go serveEcho(listener)
	var group sync.WaitGroup
	good := make([]bool, 10)
	for id := range good {
		group.Go(func() { good[id] = runClient(listener.Addr().String(), id) })
	}
	group.Wait()
	fmt.Println("tcp", good)
	fmt.Println("deadline", checkDeadline(listener.Addr().String()))
	mustSucceed(listener.Close())
	checkHTTP()
	checkDatagrams()
}
