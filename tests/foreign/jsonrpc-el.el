;;; jsonrpc-el.el --- agentd as Emacs' jsonrpc.el (the library of eglot) sees it  -*- lexical-binding: t; -*-

;;; Commentary:

;; Started by ./run, which sets AGENTD and AGENTD_TEST_CWD.

;;; Code:

(require 'jsonrpc)
(require 'cl-lib)

(defvar agentd-events nil "The events that came, latest first.")

(defvar agentd-connection
  (make-instance
   'jsonrpc-process-connection
   :name "agentd"
   :process (lambda ()
              (make-process :name "agentd" :command (list (getenv "AGENTD") "stdio")
                            :coding 'utf-8-emacs-unix :connection-type 'pipe :noquery t
                            :stderr (get-buffer-create "*agentd stderr*")))
   :notification-dispatcher (lambda (_connection method params)
                              (when (eq method 'event) (push params agentd-events)))))

(defun agentd-call (method &rest params)
  "Call METHOD with PARAMS and return its result."
  (jsonrpc-request agentd-connection method params :timeout 20))

(defun agentd-type (params)
  "Return the type of the event in PARAMS."
  (plist-get (plist-get params :event) :type))

(let* ((hello (agentd-call :initialize :clientInfo '(:name "emacs" :version "1")))
       (made (agentd-call :new_session :cwd (getenv "AGENTD_TEST_CWD") :model "demo"))
       (deadline (+ (float-time) 20)))
  (cl-assert (equal (plist-get (plist-get hello :serverInfo) :name) "agentd"))
  (agentd-call :prompt :message "what is here? é😀")
  (while (not (equal (agentd-type (car agentd-events)) "agent_settled"))
    (cl-assert (< (float-time) deadline) nil "the run does not settle")
    (accept-process-output nil 0.05))
  (let ((seq (plist-get made :seq)))
    (dolist (params (reverse agentd-events))
      (cl-incf seq)
      (cl-assert (= seq (plist-get params :seq)) nil "events are not contiguous")))
  (cl-assert (condition-case failure
                 (progn (agentd-call :get_sate) nil)
               (jsonrpc-error (= -32601 (alist-get 'jsonrpc-error-code (cdr failure)))))
             nil "an unknown method is not refused")
  (let ((answered 0))
    (dotimes (_ 200)
      (jsonrpc-async-request agentd-connection :get_state nil :timeout 20
                             :success-fn (lambda (state)
                                           (when (equal (plist-get state :sessionId) (plist-get made :sessionId))
                                             (cl-incf answered)))))
    (while (and (< answered 200) (< (float-time) deadline))
      (accept-process-output nil 0.05))
    (cl-assert (= answered 200) nil "not every request is answered"))
  (princ (format "ok: %d events, 200 requests side by side\n" (length agentd-events))))

(provide 'jsonrpc-el)
;;; jsonrpc-el.el ends here
