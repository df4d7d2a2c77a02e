package redis

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"strings"

	"tempomat/limiter"
)

// seal hides from who reads Redis which clients owe, and tells apart what another
// sidecar wrote from anything else. It is as good as the salt is secret.
type seal struct{ aead cipher.AEAD }

func newSeal(salt string) seal {
	key := sha256.Sum256([]byte("tempomat debtors " + salt))
	block, _ := aes.NewCipher(key[:]) // fails for other lengths only
	aead, _ := cipher.NewGCM(block)   // fails for other block sizes only
	return seal{aead}
}

// longestKey bounds what is sealed. A longer key is shared, but not told of.
const longestKey = 1024

// close seals a key; empty if it cannot be.
func (s seal) close(k limiter.Key) string {
	if len(k.Class)+len(k.ID) >= longestKey || strings.Contains(k.Class, "\x00") {
		return ""
	}
	nonce := make([]byte, s.aead.NonceSize(), s.aead.NonceSize()+len(k.Class)+1+len(k.ID)+s.aead.Overhead())
	_, _ = rand.Read(nonce) // never fails
	return string(s.aead.Seal(nonce, nonce, []byte(k.Class+"\x00"+k.ID), nil))
}

// open returns what was sealed; false if that was not done with this salt.
func (s seal) open(sealed string) (limiter.Key, bool) {
	n := s.aead.NonceSize()
	if len(sealed) < n || len(sealed) > 2*longestKey {
		return limiter.Key{}, false
	}
	plain, err := s.aead.Open(nil, []byte(sealed[:n]), []byte(sealed[n:]), nil)
	if err != nil {
		return limiter.Key{}, false
	}
	class, id, ok := strings.Cut(string(plain), "\x00")
	return limiter.Key{Class: class, ID: id}, ok
}
