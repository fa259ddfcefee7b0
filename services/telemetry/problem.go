package telemetry

import (
	"encoding/json"
	"net/http"
)

// problem is an error answer: a stable code and a message of ours.
type problem struct {
	status  int
	code    string
	message string
}

func (p *problem) write(w http.ResponseWriter) {
	type body struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	data, err := json.Marshal(body{p.code, p.message})
	if err != nil { // two strings always marshal
		data = []byte("{}")
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	switch p.status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", "Bearer")
	case http.StatusServiceUnavailable:
		h.Set("Retry-After", "2")
	}
	w.WriteHeader(p.status)
	_, _ = w.Write(append(data, '\n'))
}
